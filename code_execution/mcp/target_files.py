"""What an MCP tool returns as bytes becomes a file in the target, as a script has no use for it as base64."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import os
import threading
from weakref import WeakKeyDictionary

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope, current_scope

MAX_BYTES = 32 * 1024 * 1024
"""Bytes that the files of one result may have together."""

_lock = threading.Lock()
_targets: WeakKeyDictionary[CancelScope, BaseEnvironment] = WeakKeyDictionary()


def files_go_to(env: BaseEnvironment, scope: CancelScope) -> None:
    """Note whose target the files of a script's tool calls go to, which are all made in one scope."""
    with _lock:
        _targets[scope] = env


def environment_of_call() -> BaseEnvironment | None:
    """Return the environment of the script whose tool call this thread runs, if it runs one."""
    scope = current_scope()
    with _lock:
        return _targets.get(scope) if scope else None


class ResultFiles:
    """The files of one result.

    Args:
        env: Whose target they are written to; None where a tool was called by no script.
    """

    def __init__(self, env: BaseEnvironment | None) -> None:
        self._env = env
        self._bytes = 0

    def put(self, encoded: str, mime_type: str | None) -> dict[str, object]:
        """Write a file, and return its `path`, `mime_type` and `size`; or `error`, if it can't be written.

        It is in a directory that its user alone can enter, and goes with the environment.

        Args:
            encoded: What is in it, as base64.
            mime_type: Its type, if known.

        Raises:
            TerminalError: The target did not take it.
        """
        kind = mime_type or "application/octet-stream"
        size = len(encoded) * 3 // 4
        if self._env is None:
            return {"error": f"{kind} of {size} bytes: only a script's call can have it as a file of its target"}
        if self._bytes + size > MAX_BYTES:
            return {"error": f"{kind} of {size} bytes: the files of one result may have {MAX_BYTES} bytes together"}
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            return {"error": f"{kind}: the server did not send it as base64: {error}"}
        self._bytes += size
        path = f"{self._env.internal.scratch_directory()}/mcp-{os.urandom(8).hex()}{_suffix(kind)}"
        self._env.write_bytes(path, data)
        return {"path": path, "mime_type": kind, "size": len(data)}


def _suffix(mime_type: str) -> str:
    return mimetypes.guess_extension(mime_type.partition(";")[0].strip()) or ".bin"

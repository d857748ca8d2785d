"""The tool `write_file`: writes a text file in a single step."""

from __future__ import annotations

from dataclasses import replace
from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.errors import (
    EnvironmentLostError,
    EnvironmentStartError,
    TargetIsADirectoryError,
    TerminalError,
)
from environments.files import WriteConditionError, WriteConditions, run_on_files
from environments.write_guard import WriteGuard
from hermes_tools.files.target_paths import target_path

MAX_WRITTEN_BYTES = 30_000_000
"""Limit in bytes. A script's content arrives in a single message, whose limit is not much larger."""


class WriteResult(TypedDict):
    """The result of `write_file`. After a failure only `path` and `error` are set."""

    path: str
    bytes_written: NotRequired[int]
    created: NotRequired[bool]
    error: NotRequired[str]


def write_file(env: BaseEnvironment, path: str, content: str) -> WriteResult:
    """Write a text file, whole and in one step: a reader sees the old text or the new, never a part.

    Missing parent directories are made. An existing file keeps its mode, and a symbolic link keeps pointing to the
    written file. A file (of at most 10 MB) with CRLF at the end of all lines is written with CRLF. The settings
    `write_denylist` and `write_safe_root` may forbid a write.

    Args:
        path: The file: absolute, relative to the session's working directory, or below `~`, the home directory.
        content: The complete new text, without line numbers; at most 30 MB as UTF-8.

    Returns:
        A dict with path, bytes_written and created (whether the file is new). When the file could not be
        written: path and error.

    Raises:
        ValueError: The path is empty, or the content has characters that UTF-8 cannot hold.
    """
    where = target_path(env, path)
    data = content.encode()
    if len(data) > MAX_WRITTEN_BYTES:
        return {"path": path, "error": f"{path} is not written: {len(data):,} bytes are over {MAX_WRITTEN_BYTES:,}"}
    if where.endswith("/"):
        return {"path": path, "error": f"{path} is not written: it ends in a slash, as a directory does"}
    conditions = WriteConditions(WriteGuard.of(env.settings), unless_crlf=b"\n" in data)
    try:
        try:
            created = run_on_files(env, lambda files: files.write(where, data, conditions=conditions))
        except WriteConditionError as error:
            if error.kind != "crlf":
                return {"path": path, "error": f"{path} is not written: {error}"}
            data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            conditions = replace(conditions, unless_crlf=False)
            created = run_on_files(env, lambda files: files.write(where, data, conditions=conditions))
    except (EnvironmentLostError, EnvironmentStartError):
        raise
    except TargetIsADirectoryError:
        return {"path": path, "error": f"{path} exists and is not a regular file (directory)"}
    except TerminalError as error:
        return {"path": path, "error": str(error)}
    return {"path": path, "bytes_written": len(data), "created": created}

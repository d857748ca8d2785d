"""Results of MCP tools for scripts. Bytes become files in the target, because scripts have no use for base64."""

from __future__ import annotations

import base64
import binascii
import mimetypes
import os
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING

from environments.base import BaseEnvironment

if TYPE_CHECKING:
    from mcp_types import BlobResourceContents, CallToolResult, ContentBlock, TextResourceContents

MAX_BYTES = 32 * 1024 * 1024
"""Limit in bytes for all files of a result."""
_WRAPPED = "result"
"""Key in which SDKs wrap a value that is no object, because structured content had to be an object."""
environment_of_script: ContextVar[BaseEnvironment | None] = ContextVar("hermes_script_environment", default=None)
"""Environment of the script whose tool call the current thread handles."""


def value_of(result: CallToolResult, output_schema: Mapping[str, object] | None, files: ResultFiles) -> object:
    """Return the value of a result: structured content, or else the only item, a list of several, None for none.

    Text stays text. Images, sound and other bytes become files in the target; next to structured content, they follow
    in a list. An error is `{"error": ...}`; structured content with an `error` is returned whole.

    Args:
        result: The server's answer.
        output_schema: The tool's output schema, if any.
        files: Writes items that are bytes.

    Raises:
        TerminalError: A file could not be written in the target.
    """
    if result.is_error:
        found = result.structured_content
        has_error = isinstance(found, dict) and isinstance(found.get("error"), str)
        return found if has_error else {"error": _error_text(result)}
    if result.structured_content is not None:
        items = [_unwrapped(result.structured_content, output_schema)]
        items += [_item(block, files) for block in result.content if _is_bytes(block)]
    else:
        items = [_item(block, files) for block in result.content]
    if len(items) > 1:
        return items
    return items[0] if items else None


def _error_text(result: CallToolResult) -> str:
    texts = [block.text for block in result.content if block.type == "text" and block.text.strip()]
    if texts:
        return "\n".join(texts)
    return str(result.structured_content or "the tool failed without an error message")


def _unwrapped(content: object, output_schema: Mapping[str, object] | None) -> object:
    declared = (output_schema or {}).get("properties")
    if isinstance(content, dict) and isinstance(declared, dict) and list(content) == list(declared) == [_WRAPPED]:
        return content[_WRAPPED]
    return content


def _is_bytes(block: ContentBlock) -> bool:
    return block.type in ("image", "audio") or (block.type == "resource" and hasattr(block.resource, "blob"))


def _item(block: ContentBlock, files: ResultFiles) -> object:
    if block.type == "text":
        return block.text
    if block.type == "resource":
        return _resource(block.resource, files)
    if block.type == "resource_link":
        link = {"uri": block.uri, "name": block.name, "mime_type": block.mime_type, "description": block.description}
        return {key: value for key, value in link.items() if value is not None}
    return files.put(block.data, block.mime_type)


def _resource(resource: TextResourceContents | BlobResourceContents, files: ResultFiles) -> dict[str, object]:
    encoded = getattr(resource, "blob", None)
    if isinstance(encoded, str):
        return {"uri": resource.uri, **files.put(encoded, resource.mime_type)}
    return {"uri": resource.uri, "mime_type": resource.mime_type, "text": getattr(resource, "text", "")}


class ResultFiles:
    """Files of a result.

    Args:
        env: Environment for the files; None for a call outside of scripts.
    """

    def __init__(self, env: BaseEnvironment | None) -> None:
        self._env = env
        self._bytes = 0

    def put(self, encoded: str, mime_type: str | None) -> dict[str, object]:
        """Write a file, and return `path`, `mime_type` and `size`; or `error`, if not possible.

        The file is in a directory for the user alone, and is removed with the environment.

        Args:
            encoded: Content as base64.
            mime_type: MIME type, if known.

        Raises:
            TerminalError: The file could not be written in the target.
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

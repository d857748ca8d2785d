"""The transport over standard input and output: a line for each message.

The server takes over both file descriptors, so a library's output cannot mix with the messages. Reads and writes use no
thread, so a signal ends the server at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self, cast

import anyio
import anyio.lowlevel
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from hermes_env.mcp.server import MAX_MESSAGE_BYTES, ended_by_signals

_PIECE = 64 * 1024
_LAST_WRITES = 2.0
"""Seconds to write the last messages at the end of the server: the client may have stopped reading."""


async def serve_stdio(server: Server[Any]) -> bool:
    """Serve one client until the end of standard input or a signal, then end all processes of the client.

    Args:
        server: The server.

    Returns:
        True after SIGINT (Ctrl-C).
    """
    serving = anyio.CancelScope()
    with _exclusive() as (incoming, outgoing), anyio.CancelScope() as whole:
        output = _Output(outgoing, serving.cancel)
        messages = _Messages(incoming, output)
        async with (
            ended_by_signals(serving.cancel) as signals,
            stdio_server(cast("Any", messages), cast("Any", output)) as wire,
        ):
            with serving:
                # `Server.run` treats a client that first requests the versions as a client without a session.
                await serve_loop(server, *wire, lifespan_state={})
            messages.close()
            whole.deadline = anyio.current_time() + _LAST_WRITES
    return signal.SIGINT in signals


@contextlib.contextmanager
def _exclusive() -> Iterator[tuple[int, int]]:
    """Yield copies of standard input and output; redirect file descriptors 0 and 1 to /dev/null and standard error."""
    sys.stdout.flush()
    incoming, outgoing = (fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (0, 1))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing if sys.stderr is None else 2, 1)
    os.close(nothing)
    try:
        yield incoming, outgoing
    finally:
        sys.stdout.flush()
        for number, copy in enumerate((incoming, outgoing)):
            os.dup2(copy, number)
            os.close(copy)


class _Output:
    """The output, written by whole lines.

    Args:
        descriptor: The file descriptor.
        on_broken_pipe: Called after the client has closed the pipe.
    """

    def __init__(self, descriptor: int, on_broken_pipe: Callable[[], object]) -> None:
        self._descriptor, self._on_broken_pipe = descriptor, on_broken_pipe
        self._lock = anyio.Lock()
        self._is_broken = False

    async def write(self, text: str) -> None:
        """Write a line. Dropped after a broken pipe."""
        rest = memoryview(text.encode())
        async with self._lock:
            try:
                while rest and not self._is_broken:
                    with contextlib.suppress(PermissionError):  # raised for a file, which is always ready
                        await anyio.wait_writable(self._descriptor)
                    with contextlib.suppress(BlockingIOError):
                        # A ready pipe accepts PIPE_BUF bytes without blocking.
                        rest = rest[os.write(self._descriptor, rest[: select.PIPE_BUF]) :]
            except OSError:
                self._is_broken = True
                self._on_broken_pipe()

    async def flush(self) -> None:
        """Do nothing: writes are not buffered."""


class _Messages:
    """The messages of the input, as an asynchronous iterator of lines. The answer to an invalid line is an error.

    Args:
        descriptor: The file descriptor of the input.
        output: The output, for the errors.
    """

    def __init__(self, descriptor: int, output: _Output) -> None:
        self._lines = _lines(descriptor)
        self._output = output
        self._waiting = anyio.CancelScope()

    def close(self) -> None:
        """End the iteration."""
        self._waiting.cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while not self._waiting.cancel_called:
            with anyio.CancelScope() as self._waiting:
                line = await anext(self._lines)
                if error := _error_in(line):
                    await self._output.write(error.model_dump_json(by_alias=True, exclude_unset=True) + "\n")
                elif line and line.strip():
                    return line.decode()
        raise StopAsyncIteration


def _error(request: str | int | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=message))


def _error_in(line: bytes | None) -> JSONRPCError | None:
    """Return the error for an invalid or too long line; None for a message, and for an empty line."""
    if line is None:
        return _error(None, INVALID_REQUEST, f"A message is over {MAX_MESSAGE_BYTES:,} bytes")
    if not line.strip():
        return None
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as problem:
        problems = problem.errors(include_input=False, include_context=False)
        if any(each["type"] == "json_invalid" for each in problems):
            return _error(_id_in(line), PARSE_ERROR, "A line of standard input is not JSON of whole characters")
        return _error(_id_in(line), INVALID_REQUEST, "A line of standard input is no JSON-RPC message")
    if isinstance(message, JSONRPCNotification) and "id" in json.loads(line):
        return _error(None, INVALID_REQUEST, "The id of a request is text or a whole number")
    return None


def _id_in(line: bytes) -> str | int | None:
    """Return the id of an invalid message, such as a message with half a character."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    name = found.get("id") if isinstance(found, dict) else None
    return name if isinstance(name, str | int) and not isinstance(name, bool) else None


async def _lines(descriptor: int) -> AsyncIterator[bytes | None]:
    """Yield each line; None for a line that is too long for the buffer."""
    kept, is_too_long = bytearray(), False
    while data := await _next_piece(descriptor):
        *ends, rest = data.split(b"\n")
        for end in ends:
            yield None if is_too_long else bytes(kept + end)
            kept, is_too_long = bytearray(), False
        kept += rest
        if is_too_long := is_too_long or len(kept) > MAX_MESSAGE_BYTES:
            kept.clear()
    if kept:
        yield bytes(kept)


async def _next_piece(descriptor: int) -> bytes:
    while True:
        await anyio.lowlevel.checkpoint()
        with contextlib.suppress(PermissionError):  # raised for a file, which is always ready
            await anyio.wait_readable(descriptor)
        with contextlib.suppress(BlockingIOError):
            return os.read(descriptor, _PIECE)

"""The server on standard input and output: a line for each message.

Both are taken away from everybody else, so that nothing that a library prints comes between the messages. Nothing here
blocks in a thread, so that a signal finds nothing that it has to wait for.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_loop
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from hermes_env.mcp.ending import ending_signals

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""The largest message that is taken; `write_file` takes 30 MB."""
_PIECE = 64 * 1024
_LAST_WORDS = 2.0
"""Seconds for writing what is left when the server ends, to a client that may no longer read it."""

_Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client, until it closes our standard input or a signal ends us. What it started is then ended.

    Args:
        server: What answers.
    """
    async with ending_signals() as ended, _streams() as (read, write), anyio.create_task_group() as group:

        async def end() -> None:
            await ended.wait()
            group.cancel_scope.cancel()

        group.start_soon(end)
        # The newest protocol, which this does not speak, has no sessions and no questions to the client.
        await serve_loop(server, read, write, lifespan_state={})
        group.cancel_scope.cancel()


@asynccontextmanager
async def _streams() -> AsyncIterator[_Streams]:
    """Yield where messages come from, which ends when nobody sends any more, and where they go to."""
    received, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, sent = anyio.create_memory_object_stream[SessionMessage](0)
    with _claimed() as (incoming, outgoing), read, write:
        reading, written = anyio.CancelScope(), anyio.Event()
        async with anyio.create_task_group() as group:

            async def read_all() -> None:
                with reading, received:
                    await _read(incoming, received, write)

            async def write_all() -> None:
                with sent:
                    await _write(outgoing, sent, reading.cancel)
                written.set()

            group.start_soon(read_all)
            group.start_soon(write_all)
            yield read, write
            reading.cancel()
            write.close()
            with anyio.move_on_after(_LAST_WORDS):
                await written.wait()
            group.cancel_scope.cancel()


@contextmanager
def _claimed() -> Iterator[tuple[int, int]]:
    """Yield copies of standard input and output, while all others read nothing and write to standard error."""
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


async def _read(
    descriptor: int,
    received: MemoryObjectSendStream[SessionMessage | Exception],
    write: MemoryObjectSendStream[SessionMessage],
) -> None:
    """Hand on each message. What is none is answered with an error, and the next line may be one again."""
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the server has ended
        async for line in _lines(descriptor):
            if line is None:
                error = ErrorData(code=INVALID_REQUEST, message=f"A message is over {MAX_MESSAGE_BYTES:,} bytes")
                await write.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error)))
            elif line.strip():
                found = _message_in(line)
                await (write if isinstance(found, JSONRPCError) else received).send(SessionMessage(found))


def _message_in(line: bytes) -> JSONRPCMessage:
    """Return the message that a line holds, or the error that answers what is none."""
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as problem:
        return JSONRPCError(jsonrpc="2.0", id=_id_in(line), error=_error_of(problem))
    if isinstance(message, JSONRPCNotification) and "id" in json.loads(line):
        error = ErrorData(code=INVALID_REQUEST, message="The id of a request is text or a whole number")
        return JSONRPCError(jsonrpc="2.0", id=None, error=error)
    return message


def _id_in(line: bytes) -> str | int | None:
    """Return the id of a message that is not in order, such as one with half of a character in it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    name = found.get("id") if isinstance(found, dict) else None
    return name if isinstance(name, str | int) and not isinstance(name, bool) else None


def _error_of(problem: ValidationError) -> ErrorData:
    if any(each["type"] == "json_invalid" for each in problem.errors(include_input=False, include_context=False)):
        return ErrorData(code=PARSE_ERROR, message="A line of standard input is not JSON of whole characters")
    return ErrorData(code=INVALID_REQUEST, message="A line of standard input is no JSON-RPC message")


async def _lines(descriptor: int) -> AsyncIterator[bytes | None]:
    """Yield each line; None for one that is too long, of which nothing is kept."""
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
        with contextlib.suppress(PermissionError):  # a file, for which nobody has to wait
            await anyio.wait_readable(descriptor)
        with contextlib.suppress(BlockingIOError):
            return os.read(descriptor, _PIECE)


async def _write(
    descriptor: int, sent: MemoryObjectReceiveStream[SessionMessage], when_broken: Callable[[], object]
) -> None:
    """Write each message. When the client no longer reads, the server is to end."""
    async for message in sent:
        data = message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        try:
            await _write_whole(descriptor, data)
        except OSError:
            when_broken()
            break
    async for _ in sent:
        pass  # so that nobody waits for what can be written no longer


async def _write_whole(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        with contextlib.suppress(PermissionError):  # a file, for which nobody has to wait
            await anyio.wait_writable(descriptor)
        with contextlib.suppress(BlockingIOError):
            # Of so much, a pipe that can be written to takes all at once.
            rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]

"""The stream of a `docker exec`, on a real engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from targets.stream_recorder import LIMIT, StreamRecorder, converse

from environments import BaseEnvironment
from environments.loop import run
from environments.output import Channel
from environments.shell.stream import Stream, Terminal


def with_stream(
    env: BaseEnvironment,
    work: Callable[[Stream, StreamRecorder], Awaitable[None]],
    *argv: str,
    terminal: Terminal | None = None,
) -> None:
    """Run a program in the container, and a coroutine function with the program's stream on the loop."""
    env.execute("true")
    stream = env.open_stream(argv, terminal)

    run(lambda _: converse(stream, work))


def test_a_closed_stream_ends_and_accepts_no_data(shared):
    async def work(stream: Stream, recorder: StreamRecorder) -> None:
        assert await stream.exit_code(0.05) is None
        assert not recorder.ends
        await stream.close()
        assert recorder.ends == 1
        with pytest.raises(BrokenPipeError):
            stream.write(b"x")
        await stream.close()
        assert recorder.ends == 1

    with_stream(shared, work, "/bin/sh")


def test_stdout_and_stderr_are_separate_and_end_with_the_exit_code(shared):
    async def work(stream: Stream, recorder: StreamRecorder) -> None:
        stream.write(b"\0\xff" * 100_000)
        stream.close_write()
        await recorder.until(lambda: recorder.ends)
        assert recorder.data == {Channel.STDOUT: b"\0\xff" * 100_000, Channel.STDERR: b"problem\n"}
        assert await stream.exit_code(LIMIT) == 128 + 15

    with_stream(shared, work, "/bin/sh", "-c", "cat; echo problem >&2; kill -s TERM $$")


def test_a_paused_stream_holds_its_process_back_and_loses_nothing(shared):
    size = 20_000_000

    async def work(stream: Stream, recorder: StreamRecorder) -> None:
        await recorder.until(lambda: recorder.out)
        stream.pause()
        brought = len(recorder.out)
        assert await stream.exit_code(1) is None, "the process waits for its reader"
        assert len(recorder.out) == brought < size
        stream.resume()
        await recorder.until(lambda: recorder.ends)
        assert len(recorder.out) == size
        assert await stream.exit_code(LIMIT) == 0

    with_stream(shared, work, "/bin/sh", "-c", f"head -c {size} /dev/zero")


def test_input_of_a_process_that_has_ended_is_dropped_without_delay(shared):
    async def work(stream: Stream, recorder: StreamRecorder) -> None:
        stream.write(b"x" * 20_000_000)
        await stream.drain()
        await recorder.until(lambda: recorder.ends)
        assert await stream.exit_code(LIMIT) == 3

    with_stream(shared, work, "/bin/sh", "-c", "exit 3")


def test_nothing_that_a_terminal_prints_at_once_is_lost(shared):
    async def work(stream: Stream, recorder: StreamRecorder) -> None:
        await recorder.until(lambda: recorder.ends)
        assert recorder.out == b"first\r\n"

    for _ in range(10):
        with_stream(shared, work, "/bin/echo", "first", terminal=Terminal())

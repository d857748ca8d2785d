"""Streams to children of this process."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from targets.stream_recorder import LIMIT, StreamRecorder, converse

from environments.errors import EnvironmentStartError
from environments.loop import current, run
from environments.output import Channel
from environments.shell import child_stream
from environments.shell.child_stream import LARGE_PIPE_SIZE, ChildStream
from environments.shell.stream import Terminal

MUCH = 2_000_000
"""Bytes that fit into no pipe."""


@pytest.fixture(params=["by a descriptor", "by a thread"])
def detection(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Detect the end of a child by a pidfd or by a thread. Some systems have no pidfd."""
    if request.param == "by a thread":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    elif not hasattr(os, "pidfd_open"):
        pytest.skip("this system has no pidfd")
    return request.param


def run_conversation(
    script: str,
    conversation: Callable[[ChildStream, StreamRecorder], Awaitable[None]],
    terminal: Terminal | None = None,
) -> None:
    """Run a shell script and a conversation with its stream on the loop thread. Then close the stream."""

    async def work(_: object) -> None:
        stream = ChildStream(["/bin/sh", "-c", script], terminal=terminal)
        await converse(stream, conversation)
        assert stream._child.poll() is not None, "the child is reaped"
        assert all(file.closed for file in stream._files)
        assert stream._end_of_child == -1

    run(work)


def test_output_and_exit_code_of_a_child_arrive(detection: str) -> None:
    async def conversation(stream: ChildStream, recorder: StreamRecorder) -> None:
        assert (stream._end_of_child >= 0) == (detection == "by a descriptor")
        stream.write(b"word\n")
        await recorder.until(lambda: recorder.ends)
        assert recorder.data == {Channel.STDOUT: b"out word\n", Channel.STDERR: b"err\n"}
        assert await stream.exit_code(LIMIT) == 3

    run_conversation("read -r line; echo out $line; echo err >&2; exit 3", conversation)


def test_a_child_that_a_signal_ends(detection: str) -> None:
    async def conversation(stream: ChildStream, recorder: StreamRecorder) -> None:
        assert await stream.exit_code(0) is None
        stream.write(b"\n")
        assert await stream.exit_code(LIMIT) == 128 + 15

    run_conversation("read -r line; kill $$; sleep 1000", conversation)


def test_a_child_that_ended_before_anything_was_read(detection: str) -> None:
    async def work(_: object) -> None:
        stream, recorder = ChildStream(["/bin/sh", "-c", "echo all; exit 4"]), StreamRecorder()
        os.waitid(os.P_PID, stream._child.pid, os.WEXITED | os.WNOWAIT)
        stream.start(recorder)
        await recorder.until(lambda: recorder.ends)
        assert (recorder.out, await stream.exit_code(LIMIT)) == (b"all\n", 4)
        await stream.close()

    run(work)


def test_all_output_of_a_child_is_read_though_others_hold_its_pipes_open(detection: str, nap: str) -> None:
    async def conversation(stream: ChildStream, recorder: StreamRecorder) -> None:
        await recorder.until(lambda: recorder.ends)
        process, text = recorder.out.split(b"\n", 1)
        os.kill(int(process), 9)
        assert text == b"x" * 40_000

    run_conversation(f"sleep {nap} & echo $!; head -c 40000 /dev/zero | tr '\\0' x", conversation)


def test_pipes_that_are_closed_early_are_no_end(detection: str) -> None:
    async def conversation(stream: ChildStream, recorder: StreamRecorder) -> None:
        async with asyncio.timeout(LIMIT):
            while stream._channels:
                await asyncio.sleep(0.01)
        assert not recorder.ends
        stream.write(b"\n")
        await recorder.until(lambda: recorder.ends)
        assert (recorder.out, await stream.exit_code(LIMIT)) == (b"all\n", 5)

    run_conversation("echo all; exec >&- 2>&-; read -r line; exit 5", conversation)


def test_nothing_is_read_while_a_stream_is_paused(detection: str) -> None:
    async def conversation(stream: ChildStream, recorder: StreamRecorder) -> None:
        stream.pause()
        assert await stream.exit_code(LIMIT) == 0, "the output fits into the pipe"
        for _ in range(20):
            await asyncio.sleep(0)
        assert recorder.out == b"" and not recorder.ends
        stream.resume()
        await recorder.until(lambda: recorder.ends)
        assert recorder.out == b"in the pipe\n"

    run_conversation("echo in the pipe", conversation)


def test_a_receiver_may_pause_the_stream_at_every_piece(detection: str) -> None:
    async def conversation(stream: ChildStream, recorder: StreamRecorder) -> None:
        take, pieces = recorder.data_received, []

        def slowly(channel: Channel, data: bytes) -> None:
            assert not stream._is_paused
            pieces.append(len(data))
            take(channel, data)
            stream.pause()
            current().loop.call_soon(stream.resume)

        recorder.data_received = slowly
        await recorder.until(lambda: recorder.ends)
        assert recorder.out == b"x" * MUCH
        assert len(pieces) >= MUCH // LARGE_PIPE_SIZE

    run_conversation(f"head -c {MUCH} /dev/zero | tr '\\0' x", conversation)


def test_drain_waits_until_the_child_has_room_for_all() -> None:
    async def conversation(stream: ChildStream, recorder: StreamRecorder) -> None:
        await stream.drain()
        stream.write(b"x" * MUCH)
        stream.write(b"\n")
        draining = current().spawn(stream.drain())
        await recorder.until(lambda: recorder.out == b"begun\n")
        assert not draining.done() and (stream.unread() or 0) == MUCH + 1
        os.kill(stream._child.pid, 10)
        await draining
        stream.close_write()
        await recorder.until(lambda: recorder.ends)
        assert recorder.out == f"begun\n{MUCH + 1}\n".encode()

    run_conversation("trap 'wc -c; exit' USR1; echo begun; while :; do sleep 0.01; done", conversation)


def test_concurrent_drains_all_return() -> None:
    async def conversation(stream: ChildStream, recorder: StreamRecorder) -> None:
        stream.write(b"x" * MUCH)
        waiting = [asyncio.ensure_future(stream.drain()) for _ in range(3)]
        await asyncio.sleep(0)
        stream.write(b"\n")
        async with asyncio.timeout(LIMIT):
            await asyncio.gather(*waiting)

    run_conversation("sleep 0.1; cat >/dev/null", conversation)


def test_end_of_file_comes_behind_the_written_data() -> None:
    async def conversation(stream: ChildStream, recorder: StreamRecorder) -> None:
        stream.write(b"x" * MUCH)
        stream.close_write()
        stream.close_write()
        with pytest.raises(BrokenPipeError):
            stream.write(b"more")
        await recorder.until(lambda: recorder.ends)
        assert recorder.out.strip() == str(MUCH).encode()
        assert stream.unread() == 0

    run_conversation("wc -c", conversation)


def test_a_child_that_has_stopped_reading_accepts_no_data() -> None:
    async def conversation(stream: ChildStream, recorder: StreamRecorder) -> None:
        stream.write(b"x" * MUCH)
        await stream.drain()
        assert await stream.exit_code(LIMIT) == 0
        with pytest.raises(BrokenPipeError):
            stream.write(b"more")

    run_conversation("head -c 1 >/dev/null", conversation)


def test_unread_input_is_known_after_the_end_of_a_child() -> None:
    async def conversation(stream: ChildStream, recorder: StreamRecorder) -> None:
        stream.write(b"read\n")
        await recorder.until(lambda: recorder.out == b"read\n")
        assert stream.unread() == 0
        stream.write(b"left")
        stream._child.kill()
        assert await stream.exit_code(LIMIT) == 128 + 9
        assert stream.unread() == 4

    run_conversation("read -r line; echo $line; exec sleep 1000", conversation)


def test_close_ends_the_child_and_pending_writes(detection: str) -> None:
    async def conversation(stream: ChildStream, recorder: StreamRecorder) -> None:
        stream.write(b"x" * MUCH)
        draining = current().spawn(stream.drain())
        await asyncio.sleep(0)
        await asyncio.gather(stream.close(), stream.close(), draining)
        assert await stream.exit_code(0) == 128 + 9
        with pytest.raises(BrokenPipeError):
            stream.write(b"more")
        stream.resume()
        assert stream.unread() == 0

    run_conversation("trap '' TERM HUP; exec sleep 1000", conversation)


def test_close_waits_only_a_while_for_a_child_that_may_not_be_killed(
    detection: str, monkeypatch: pytest.MonkeyPatch, nap: str
) -> None:
    monkeypatch.setattr(child_stream, "LEAVE_LIMIT", 0.01)

    async def work(_: object) -> None:
        stream, recorder = ChildStream(["sleep", nap]), StreamRecorder()
        kill = stream._child.kill

        def refuse() -> None:
            raise PermissionError

        monkeypatch.setattr(stream._child, "kill", refuse)
        stream.start(recorder)
        await stream.close()
        assert recorder.ends == 1
        kill()
        assert await stream.exit_code(LIMIT) == 128 + 9

    run(work)


def test_a_child_on_a_terminal_sees_its_size(detection: str) -> None:
    async def conversation(stream: ChildStream, recorder: StreamRecorder) -> None:
        await recorder.until(lambda: recorder.out == b"30 90\r\n")
        await stream.resize(Terminal(20, 40))
        stream.write(b"go\n")
        await recorder.until(lambda: recorder.out.endswith(b"20 40\r\n"))
        assert stream.unread() is None
        stream.close_write()
        await recorder.until(lambda: recorder.ends)
        assert recorder.out.endswith(b"end\r\n")
        assert recorder.data[Channel.STDERR] == b""
        assert await stream.exit_code(LIMIT) == 6
        await stream.resize(Terminal(20, 40))

    run_conversation(
        "stty -echo; stty size; read -r word; stty size; cat; echo end >&2; exit 6", conversation, Terminal(30, 90)
    )


def test_a_failed_start_leaves_no_descriptor_open(detection: str, tmp_path: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    for terminal in (None, Terminal()):
        with pytest.raises(EnvironmentStartError, match="cannot start"):
            ChildStream([str(tmp_path / "none")], cwd=str(tmp_path / "nowhere"), terminal=terminal)
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_child_that_cannot_be_watched_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def refuse(stream: ChildStream) -> None:
        started.append(stream._child)
        raise OSError(24, "too many open files")

    monkeypatch.setattr(ChildStream, "_watch_child", refuse)
    with pytest.raises(EnvironmentStartError, match="too many open files"):
        ChildStream(["sleep", "1000"])
    assert started[0].returncode == -9

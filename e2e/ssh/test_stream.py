"""The stream of a process on an SSH server: driven by the loop, without a thread of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import paramiko
import psutil
import pytest
from paramiko.common import cMSG_CHANNEL_CLOSE, cMSG_CHANNEL_DATA, cMSG_CHANNEL_EOF
from targets.ssh_server import SSHServer
from targets.stream_recorder import LIMIT, StreamRecorder, converse
from targets.threads import running_threads

from environments import load_settings
from environments.conformance.check import wait_until
from environments.errors import TerminalError
from environments.loop import in_worker, run
from environments.output import Channel
from environments.shell.pool import opened
from environments.shell.stream import Terminal
from environments.ssh import SSHEnvironment
from environments.ssh import stream as ssh_stream
from environments.ssh.stream import WINDOW, SSHStream

MUCH = 4 * WINDOW
"""More bytes than a window holds."""

StartServer = Callable[..., SSHServer]
Conversation = Callable[[SSHStream, StreamRecorder], Awaitable[None]]


@pytest.fixture
def env(server: SSHServer) -> Iterator[SSHEnvironment]:
    with SSHEnvironment(load_settings("ssh", **server.settings)) as made:
        made.execute("true")
        yield made


def run_conversation(
    env: SSHEnvironment, script: str, conversation: Conversation, terminal: Terminal | None = None
) -> None:
    """Run a shell script and a conversation with its stream on the loop thread. Then close the stream."""

    async def work(_: object) -> None:
        stream = await opened(env.open_stream, ["/bin/sh", "-c", script], terminal)
        assert isinstance(stream, SSHStream)
        await converse(stream, conversation)

    run(work)


def test_stdout_and_stderr_arrive_separately_and_complete(env: SSHEnvironment) -> None:
    data = os.urandom(300_000)

    async def conversation(stream: SSHStream, recorder: StreamRecorder) -> None:
        assert await stream.exit_code(0.01) is None
        for start in range(0, len(data), 70_000):
            stream.write(data[start : start + 70_000])
        stream.close_write()
        with pytest.raises(BrokenPipeError):
            stream.write(b"behind the end")
        await recorder.until(lambda: recorder.ends)
        assert recorder.data == {Channel.STDOUT: data, Channel.STDERR: b"problem\n"}
        assert await stream.exit_code(LIMIT) == 5

    run_conversation(env, "cat; echo problem >&2; exit 5", conversation)


@pytest.mark.parametrize("name", ["KILL", "SEGV", "TERM"])
def test_a_signal_that_ends_the_process_is_its_exit_code(env: SSHEnvironment, name: str) -> None:
    async def conversation(stream: SSHStream, recorder: StreamRecorder) -> None:
        await recorder.until(lambda: recorder.ends)
        assert await stream.exit_code(LIMIT) == 128 + signal.Signals[f"SIG{name}"]

    run_conversation(env, f"kill -{name} $$", conversation)


def test_a_background_child_does_not_delay_the_end_and_all_output_comes(env: SSHEnvironment) -> None:
    async def conversation(stream: SSHStream, recorder: StreamRecorder) -> None:
        await recorder.until(lambda: recorder.ends)
        pid = int(recorder.out)
        assert psutil.pid_exists(pid), "the child still runs"
        psutil.Process(pid).kill()
        assert len(recorder.out) == 100_000
        assert await stream.exit_code(LIMIT) == 5

    run_conversation(env, "sleep 1000 & printf '%100000s' $!; exit 5", conversation)


def test_a_paused_stream_makes_the_process_wait_and_loses_nothing(env: SSHEnvironment) -> None:
    async def conversation(stream: SSHStream, recorder: StreamRecorder) -> None:
        await recorder.until(lambda: recorder.out)
        stream.pause()
        size = len(recorder.out)
        stream.write(b"go\n")
        assert await stream.exit_code(0.5) is None
        assert len(recorder.out) == size
        stream.resume()
        await recorder.until(lambda: recorder.ends)
        assert len(recorder.out) == len(b"ready\n") + MUCH
        assert await stream.exit_code(LIMIT) == 0

    run_conversation(env, f"echo ready; read -r word; head -c {MUCH} /dev/zero", conversation)


def test_a_stream_paused_by_its_receiver_ends_behind_its_output(env: SSHEnvironment) -> None:
    async def conversation(stream: SSHStream, recorder: StreamRecorder) -> None:
        stream.pause()
        assert await stream.exit_code(LIMIT) == 3
        await asyncio.sleep(1)  # longer than the quiet time behind the process's end
        assert not recorder.ends and not recorder.out
        stream.resume()
        await recorder.until(lambda: recorder.ends)
        assert recorder.data == {Channel.STDOUT: b"out", Channel.STDERR: b"err"}

    run_conversation(env, "printf out; printf err >&2; exit 3", conversation)


def test_much_input_and_output_at_once_do_not_block(env: SSHEnvironment) -> None:
    data = os.urandom(MUCH)

    async def conversation(stream: SSHStream, recorder: StreamRecorder) -> None:
        stream.write(data)
        stream.close_write()
        await stream.drain()
        await recorder.until(lambda: recorder.ends)
        assert recorder.out[:MUCH] == bytes(MUCH)
        assert recorder.out[MUCH:] == data

    # The process reads only after sending all its output: window updates must not queue behind the input.
    run_conversation(env, f"head -c {MUCH} /dev/zero; cat", conversation)


def test_close_ends_a_waiting_drain(env: SSHEnvironment) -> None:
    async def conversation(stream: SSHStream, recorder: StreamRecorder) -> None:
        await recorder.until(lambda: recorder.out.endswith(b"\n"))
        stream.write(bytes(MUCH))
        draining = asyncio.ensure_future(stream.drain())
        done, _ = await asyncio.wait((draining,), timeout=0.5)
        assert not done, "the process reads nothing"
        await stream.close()
        async with asyncio.timeout(LIMIT):
            await draining
        assert await stream.exit_code(LIMIT) is None
        psutil.Process(int(recorder.out)).kill()

    before = running_threads()
    run_conversation(env, "echo $$; exec sleep 1000", conversation)
    assert wait_until(lambda: running_threads() <= before, LIMIT)


def test_input_that_a_process_does_not_read_any_more_is_dropped(env: SSHEnvironment) -> None:
    async def conversation(stream: SSHStream, recorder: StreamRecorder) -> None:
        stream.write(bytes(MUCH))
        await recorder.until(lambda: recorder.ends)
        assert await stream.exit_code(LIMIT) == 7
        with pytest.raises(BrokenPipeError):
            stream.write(b"more")
        async with asyncio.timeout(LIMIT):
            await stream.drain()

    run_conversation(env, "exit 7", conversation)


def test_a_dropped_link_ends_the_stream_behind_its_output(start_server: StartServer) -> None:
    server = start_server()

    async def conversation(stream: SSHStream, recorder: StreamRecorder) -> None:
        stream.pause()
        stream.write(bytes(MUCH))
        await asyncio.sleep(0.5)
        server.kill_connections()
        assert await stream.exit_code(LIMIT) is None
        with pytest.raises(BrokenPipeError):
            stream.write(b"more")
        async with asyncio.timeout(LIMIT):
            await stream.drain()
        stream.resume()
        await recorder.until(lambda: recorder.ends)
        psutil.Process(int(recorder.out)).kill()

    with SSHEnvironment(load_settings("ssh", **server.settings)) as env:
        env.execute("true")
        run_conversation(env, "echo $$; exec sleep 1000", conversation)


def test_a_link_that_stalls_holds_neither_the_loop_nor_the_end_of_a_stream(start_server: StartServer) -> None:
    server = start_server()

    async def conversation(stream: SSHStream, recorder: StreamRecorder) -> None:
        await recorder.until(lambda: recorder.out)
        [link] = env._links
        link._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        serving = server._serving()
        for process in serving:
            process.suspend()
        try:
            stream.write(bytes(MUCH))  # more than the socket takes
            await asyncio.sleep(0.5)
            stream.close_write()
            draining = asyncio.ensure_future(stream.drain())
            await stream.close()
            await draining
            assert await stream.exit_code(LIMIT) is None
            assert link.loss() is None, "the close waited until the stalled link was detected"
        finally:
            for process in serving:
                process.resume()

    with SSHEnvironment(load_settings("ssh", **server.settings)) as env:
        env.execute("true")
        run_conversation(env, "echo ready; cat >/dev/null", conversation)


def test_input_that_cannot_be_sent_ends_the_stream(env: SSHEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    def given_up(channel: paramiko.Channel, data: bytes) -> int:
        raise paramiko.SSHException("Key-exchange timed out waiting for key negotiation")

    async def conversation(stream: SSHStream, recorder: StreamRecorder) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(paramiko.Channel, "send", given_up)
            stream.write(b"lost")
            await recorder.until(lambda: recorder.ends)

    run_conversation(env, "cat", conversation)


@pytest.mark.parametrize("kind_of_message", [cMSG_CHANNEL_DATA, cMSG_CHANNEL_EOF], ids=["data", "end"])
def test_no_message_follows_the_close_of_a_channel(
    env: SSHEnvironment, monkeypatch: pytest.MonkeyPatch, kind_of_message: bytes
) -> None:
    """Data behind the close of a channel makes an OpenSSH server end the whole connection."""
    original = paramiko.Transport._send_user_message  # type: ignore[attr-defined]
    held, closed = threading.Event(), threading.Event()

    def late(transport: paramiko.Transport, message: paramiko.Message) -> None:
        kind = message.asbytes()[:1]
        if kind == kind_of_message and not held.is_set() and threading.current_thread() is sender:
            held.set()
            closed.wait(1)
            time.sleep(0.3)  # the server forgets the channel
        original(transport, message)
        if kind == cMSG_CHANNEL_CLOSE:
            closed.set()

    env.execute("export KEPT=yes")
    channel = env._open_channel()
    channel.exec_command("exec cat")
    sender = threading.Thread(
        target=channel.shutdown_write if kind_of_message == cMSG_CHANNEL_EOF else partial(channel.send, b"x")
    )
    monkeypatch.setattr(paramiko.Transport, "_send_user_message", late)
    sender.start()
    assert held.wait(LIMIT)
    channel.close()
    sender.join()
    assert env.execute("echo $KEPT").output == "yes\n"


def test_a_window_update_that_failed_is_sent_later(env: SSHEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[object] = []

    async def without_threads(work: Callable[..., object], *args: object) -> object:
        if "_send_user_message" in repr(work) and len(refused) < 8:
            refused.append(work)
            raise TerminalError("no thread can be started")
        return await in_worker(work, *args)

    async def conversation(stream: SSHStream, recorder: StreamRecorder) -> None:
        monkeypatch.setattr(ssh_stream, "in_worker", without_threads)
        stream.write(b"go\n")
        await recorder.until(lambda: len(recorder.out) == MUCH)
        assert len(refused) == 8, "as much as the window"

    run_conversation(env, f"read -r word; head -c {MUCH} /dev/zero", conversation)


def test_a_terminal_has_its_size_and_takes_the_end_of_the_input(env: SSHEnvironment) -> None:
    async def conversation(stream: SSHStream, recorder: StreamRecorder) -> None:
        await recorder.until(lambda: b"30 100" in recorder.out)
        await stream.resize(Terminal(40, 120))
        stream.write(b"go\n")
        await recorder.until(lambda: b"40 120" in recorder.out)
        stream.close_write()
        await recorder.until(lambda: recorder.ends)
        assert await stream.exit_code(LIMIT) == 0

    run_conversation(env, "stty size; read -r word; stty size; cat", conversation, Terminal(30, 100))


def test_a_waiting_stream_uses_no_thread(env: SSHEnvironment) -> None:
    def threads() -> int:
        return sum(not thread.name.startswith("hermes-worker") for thread in threading.enumerate())

    before = threads()
    processes = [env.start("read -r word; echo got $word") for _ in range(4)]
    assert threads() == before
    for process in processes:
        process.write("it\n")
        assert process.wait(LIMIT) == 0 and process.read() == "got it\n"

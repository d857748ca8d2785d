"""Polling for output: a poll waits in the target until there is output."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.per_command_local import PerCommandLocal
from targets.stream_recorder import StreamRecorder

from environments import load_settings
from environments.output import Channel
from environments.shell.stream import Stream


class RestingRecorder(StreamRecorder):
    """A recorder that ends the polling after its first output."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream = stream

    def data_received(self, channel: Channel, data: bytes) -> None:
        super().data_received(channel, data)
        self._stream.rest(reports=False)


@pytest.fixture
def env(tmp_path: Path) -> Iterator[PerCommandLocal]:
    with PerCommandLocal(load_settings("local", cwd=str(tmp_path))) as made:
        yield made


def test_a_command_of_some_seconds_costs_one_round_trip_more_than_a_short_one(env: PerCommandLocal) -> None:
    for run in (env.execute, env.execute_oneshot):
        run("true")
        before = env.commands
        run("true")
        short, before = env.commands - before, env.commands
        run("sleep 3")
        assert env.commands - before <= short + 1


def test_an_idle_shell_is_not_polled(env: PerCommandLocal) -> None:
    env.execute("true")
    env.execute_oneshot("true")
    before = env.commands
    env.run_on_loop(lambda _: asyncio.sleep(0.3))
    assert env.commands == before


def test_small_outputs_of_consecutive_commands_are_not_delayed(env: PerCommandLocal) -> None:
    env.execute("true")
    env.texts.clear()
    for _ in range(5):
        env.execute("echo word")
    assert set(re.findall("quiet=([0-9]+)", "".join(text for text in env.texts if "limit=100 " in text))) == {"0"}


def test_the_last_output_of_a_process_that_was_not_polled_comes_with_its_exit_code(env: PerCommandLocal) -> None:
    async def use(_: object) -> None:
        stream = await env.open_stream(["sh", "-c", "read -r x; echo $x; sleep 0.5; echo last; exit 7"])
        recorder = RestingRecorder(stream)
        stream.start(recorder)
        stream.write(b"first\n")
        await recorder.until(lambda: recorder.out == b"first\n")
        await asyncio.sleep(2)
        stream.write(b"more\n")
        await stream.drain()
        await recorder.until(lambda: recorder.ends)
        assert recorder.out == b"first\nlast\n"
        assert await stream.exit_code(30) == 7
        with pytest.raises(BrokenPipeError):
            stream.write(b"more\n")
        await stream.close()

    env.run_on_loop(use)


def test_a_paused_stream_delivers_nothing_until_it_is_resumed(env: PerCommandLocal) -> None:
    async def use(_: object) -> None:
        stream, recorder = await env.open_stream(["cat"]), StreamRecorder()
        stream.start(recorder)
        stream.write(b"first\n")
        await recorder.until(lambda: recorder.out)
        stream.pause()
        stream.write(b"second\n")
        await stream.drain()
        stream.close_write()
        await stream.drain()
        await asyncio.sleep(0.5)
        assert recorder.out == b"first\n" and not recorder.ends
        stream.resume()
        await recorder.until(lambda: recorder.ends)
        assert recorder.out == b"first\nsecond\n"
        await stream.close()

    env.run_on_loop(use)


def test_input_is_sent_in_order_and_queued_input_is_joined(env: PerCommandLocal) -> None:
    async def use(_: object) -> None:
        stream, recorder = await env.open_stream(["cat"]), StreamRecorder()
        stream.start(recorder)
        pieces = [f"{number} ".encode() for number in range(100)]
        env.texts.clear()
        for piece in pieces:
            stream.write(piece)
        stream.close_write()
        await stream.drain()
        await recorder.until(lambda: recorder.ends)
        assert recorder.out == b"".join(pieces)
        assert sum("number=" in text for text in env.texts) == 1
        assert await stream.exit_code(30) == 0
        await stream.close()

    env.run_on_loop(use)


def test_a_second_write_is_not_delayed_by_a_poll_for_output(
    env: PerCommandLocal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("environments.short_commands.stream.WAIT", 1000.0)
    monkeypatch.setattr(env, "delay", 0.05)

    async def use(_: object) -> None:
        stream = await env.open_stream(["sh", "-c", "echo up; read -r a; read -r b; read -r c; echo $a $b $c"])
        recorder = RestingRecorder(stream)
        stream.start(recorder)
        stream.write(b"one\n")
        await recorder.until(lambda: recorder.out == b"up\n")
        await stream.drain()
        stream.write(b"two\n")
        await asyncio.sleep(0.02)  # the write is in flight
        stream.resume()
        stream.write(b"three\n")
        await recorder.until(lambda: recorder.out == b"up\none two three\n")
        await stream.close()

    env.run_on_loop(use)

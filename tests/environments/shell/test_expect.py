"""`expect`: the wait for output of a background process."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Iterable

import pytest
from targets.pause_log import PauseLog

from environments import (
    BaseEnvironment,
    CallCancelledError,
    CancelScope,
    EnvironmentLostError,
    ProcessEndedError,
    ProcessTimeoutError,
    TerminalError,
)
from environments.loop import run, spawn
from environments.output import Channel
from environments.shell.process import OutputSearch, UnreadOutput

FOREVER = 60.0


async def _search(output: UnreadOutput, search: OutputSearch, pieces: Iterable[bytes]) -> str:
    """Search output that arrives during the search, piece by piece."""
    looking = spawn(output.take_to(search, FOREVER))
    for piece in pieces:
        await asyncio.sleep(0)
        output.add(Channel.STDOUT, piece)
    return await looking


def _run_on_loop(work: Callable[[UnreadOutput], Awaitable[None]], *pieces: str | bytes, limit: int = 1000) -> None:
    """Run a coroutine function on the loop thread, with an output that has some pieces."""

    async def with_pieces(_: object) -> None:
        output = UnreadOutput(limit)
        for piece in pieces:
            output.add(Channel.STDOUT, piece.encode() if isinstance(piece, str) else piece)
        await work(output)

    run(with_pieces)


@pytest.mark.parametrize("search", [OutputSearch("b\nc"), OutputSearch(re.compile("b.c", re.DOTALL))])
def test_output_is_taken_up_to_the_match(search: OutputSearch) -> None:
    async def work(output: UnreadOutput) -> None:
        assert await output.take_to(search, 0) == "ab\nc"
        assert output.read_new(final=False) == "de"

    _run_on_loop(work, "a", "b", "\n", "cd", "e")


@pytest.mark.parametrize("search", [OutputSearch("x"), OutputSearch(re.compile("x"))])
def test_a_search_without_a_match_leaves_the_output(search: OutputSearch) -> None:
    async def work(output: UnreadOutput) -> None:
        with pytest.raises(TimeoutError):
            await output.take_to(search, 0.01)
        output.end()
        with pytest.raises(EOFError):
            await output.take_to(search, FOREVER)
        assert output.read_new(final=True) == "abc"

    _run_on_loop(work, "abc")


@pytest.mark.parametrize("search", [OutputSearch("ü!"), OutputSearch(re.compile("[ü]!"))])
def test_characters_that_come_in_two_pieces_are_whole(search: OutputSearch) -> None:
    async def work(output: UnreadOutput) -> None:
        pieces = [bytes([byte]) for byte in "\xff ü!ö".encode() + b"\xe6\x97"]
        assert await _search(output, search, pieces) == "日本\xff ü!"
        assert output.read_new(final=False) == "ö"
        assert output.read_new(final=True) == "�"

    _run_on_loop(work, "日本")


def test_bytes_that_are_no_text_are_counted_as_such() -> None:
    async def work(output: UnreadOutput) -> None:
        assert (await output.take_to(OutputSearch(re.compile("r.*y")), 0)).endswith(" ready")
        assert output.read_new(final=True) == "�"

    _run_on_loop(work, b"\xff\xfe\xed\xa0\x80 ready\xff")


def test_a_pattern_sees_earlier_output_and_is_searched_once_more_at_the_deadline() -> None:
    async def work(output: UnreadOutput) -> None:
        search = OutputSearch(re.compile(r"^\d{3}$", re.MULTILINE))
        assert await output.take_to(search, 0) == "1\n22\n333"

    _run_on_loop(work, "1\n22\n333")


@pytest.mark.parametrize("search", [OutputSearch("needle"), OutputSearch(re.compile("n[e]+dle"))])
def test_output_is_searched_before_it_is_dropped(search: OutputSearch) -> None:
    async def work(output: UnreadOutput) -> None:
        output.stream = tap = PauseLog()
        looking = spawn(output.take_to(search, FOREVER))
        await asyncio.sleep(0)
        for piece in (b"x" * 99, b"needle", b"y" * 1000):  # the search cannot run in between
            output.add(Channel.STDOUT, piece)
        assert await looking == "x" * 99 + "needle"
        assert output.read_new(final=True) == "y" * 100
        assert tap.calls == ["pause", "resume"]
        output.add(Channel.STDOUT, b"z" * 1000)
        assert tap.calls == ["pause", "resume"], "without a search the oldest output is dropped"
        assert output.read_new(final=True) == "z" * 100

    _run_on_loop(work, limit=100)


def test_output_without_a_match_is_dropped_and_the_stream_goes_on() -> None:
    async def work(output: UnreadOutput) -> None:
        output.stream = tap = PauseLog()
        looking = spawn(output.take_to(OutputSearch("needle"), FOREVER))
        await asyncio.sleep(0)
        for _ in range(3):
            output.add(Channel.STDOUT, b"x" * 1000)
            assert tap.calls.pop() == "pause"
            await _wait_until(lambda: tap.calls)
            assert tap.calls.pop() == "resume"
        output.add(Channel.STDOUT, b"needle")
        assert await looking == "x" * 100 + "needle"

    _run_on_loop(work, limit=100)


def test_a_wait_that_is_cancelled_lets_the_stream_go_on() -> None:
    async def work(output: UnreadOutput) -> None:
        output.stream = tap = PauseLog()
        looking = spawn(output.take_to(OutputSearch("needle"), FOREVER))
        await asyncio.sleep(0)
        output.add(Channel.STDOUT, b"x" * 1000)
        looking.cancel()
        await asyncio.wait((looking,))
        assert looking.cancelled()
        assert tap.calls == ["pause", "resume"]
        assert output.read_new(final=True) == "x" * 100

    _run_on_loop(work, limit=100)


class Slow(OutputSearch):
    """A search that lasts until the test releases it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.begun, self.may_end = threading.Event(), threading.Event()

    def end_in(self, data: bytearray, before: int, *, at_once: bool) -> int | None:
        self.begun.set()
        assert self.may_end.wait(FOREVER)
        return super().end_in(data, before, at_once=at_once)


async def _wait_until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(FOREVER):
        while not holds():
            await asyncio.sleep(0.001)


def test_output_that_is_read_during_a_search_is_not_found() -> None:
    async def work(output: UnreadOutput) -> None:
        search = Slow("b")
        looking = spawn(output.take_to(search, FOREVER))
        await _wait_until(search.begun.is_set)
        assert output.read_new(final=True) == "ab"
        search.may_end.set()
        output.add(Channel.STDOUT, b"longer b")
        assert await looking == "longer b"

    _run_on_loop(work, "ab")


def test_output_that_comes_during_a_search_is_searched_also_if_another_search_has_seen_it() -> None:
    async def work(output: UnreadOutput) -> None:
        search, other = Slow("needle"), OutputSearch(re.compile("never"))
        looking, beside = (spawn(output.take_to(each, FOREVER)) for each in (search, other))
        await _wait_until(search.begun.is_set)
        output.add(Channel.STDOUT, b"needle")
        await _wait_until(lambda: other._seen == len("needle"))
        search.may_end.set()
        assert await looking == "needle"
        output.end()
        with pytest.raises(EOFError):
            await beside

    _run_on_loop(work)


def test_a_conversation(env: BaseEnvironment) -> None:
    process = env.start("echo ready; while read -r n; do echo $((n * 2)) '>'; done; echo bye >&2; exit 3")
    assert process.expect("ready", FOREVER) == "ready"
    for number in (1, 21):
        process.write(f"{number}\n")
        assert process.expect(re.compile(r"\d+ >"), FOREVER).strip() == f"{number * 2} >"
    process.close_stdin()
    with pytest.raises(ProcessEndedError, match=r"exit code 3 .*'more'; the last of it is '\\nbye\\n'") as raised:
        process.expect("more")
    assert isinstance(raised.value, EOFError)
    assert isinstance(raised.value, TerminalError)
    assert raised.value.exit_code == 3
    assert process.expect("bye") == "\nbye"
    assert process.read() == "\n"


def test_the_wait_for_output_has_a_time_limit(env: BaseEnvironment) -> None:
    process = env.start("echo here; read -r word")
    assert process.expect("here\n") == "here\n"
    with pytest.raises(ProcessTimeoutError, match=r"after 0\.05 s .*nothing was printed") as raised:
        process.expect("more", 0.05)
    assert isinstance(raised.value, TimeoutError)
    assert process.running
    process.kill()


@pytest.mark.parametrize("by", ["a cancelled scope", "the environment's end"])
def test_the_wait_is_ended_by(env: BaseEnvironment, by: str) -> None:
    process, scope, waiting = env.start("cat"), CancelScope(), threading.Event()
    errors: list[Exception] = []

    def wait() -> None:
        with scope.active():
            try:
                waiting.set()
                process.expect("never")
            except (CallCancelledError, ProcessEndedError, EnvironmentLostError) as error:
                errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    thread.join(0.1)
    scope.cancel() if by == "a cancelled scope" else env.cleanup()
    thread.join(FOREVER)
    assert len(errors) == 1
    assert isinstance(errors[0], CallCancelledError) == process.running == (by == "a cancelled scope")


def test_lines_of_a_terminal_end_with_carriage_return_and_newline(env: BaseEnvironment) -> None:
    process = env.start("stty -echo; echo go; read -r line; echo got $line", pty=True)
    assert process.expect("go\r\n", FOREVER).endswith("go\r\n")
    process.write("it\n")
    assert process.expect(re.compile(r"got (\w+)\r?\n"), FOREVER) == "got it\r\n"

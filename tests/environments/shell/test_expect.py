"""Waiting for what a process in the background prints."""

from __future__ import annotations

import re
import threading

import pytest

from environments import (
    BaseEnvironment,
    CallCancelledError,
    CancelScope,
    EnvironmentLostError,
    ProcessEndedError,
    ProcessTimeoutError,
    TerminalError,
)
from environments.conformance.check import wait_until
from environments.shell.unread import PatternSearch, TextSearch, UnreadOutput
from environments.sink import Channel

FOREVER = 60.0


def _printed(*pieces: str | bytes, limit: int = 1000) -> UnreadOutput:
    output = UnreadOutput(limit)
    for piece in pieces:
        output.add(Channel.STDOUT, piece.encode() if isinstance(piece, str) else piece)
    return output


@pytest.mark.parametrize("search", [TextSearch("b\nc"), PatternSearch(re.compile("b.c", re.DOTALL))])
def test_what_has_come_is_taken_up_to_what_was_looked_for(search: TextSearch | PatternSearch) -> None:
    output = _printed("a", "b", "\n", "cd", "e")
    assert output.take_to(search, 0) == "ab\nc"
    assert output.take(final=False) == "de"


@pytest.mark.parametrize("search", [TextSearch("x"), PatternSearch(re.compile("x"))])
def test_what_has_not_come_leaves_all_as_it_was(search: TextSearch | PatternSearch) -> None:
    output = _printed("abc")
    with pytest.raises(TimeoutError):
        output.take_to(search, 0.01)
    output.end()
    with pytest.raises(EOFError):
        output.take_to(search, FOREVER)
    assert output.take(final=True) == "abc"


@pytest.mark.parametrize("search", [TextSearch("ü!"), PatternSearch(re.compile("[ü]!"))])
def test_characters_that_come_in_two_pieces_are_whole(search: TextSearch | PatternSearch) -> None:
    output = _printed("日本")
    taken: list[str] = []
    thread = threading.Thread(target=lambda: taken.append(output.take_to(search, FOREVER)))
    thread.start()
    for byte in "\xff ü!ö".encode() + b"\xe6\x97":
        output.add(Channel.STDOUT, bytes([byte]))
    thread.join()
    assert taken == ["日本\xff ü!"]
    assert output.take(final=False) == "ö"
    assert output.take(final=True) == "�"


def test_bytes_that_are_no_text_are_counted_as_such() -> None:
    output = _printed(b"\xff\xfe\xed\xa0\x80 ready\xff")
    assert output.take_to(PatternSearch(re.compile("r.*y")), 0).endswith(" ready")
    assert output.take(final=True) == "�"


def test_a_pattern_sees_what_stands_before_and_is_looked_for_once_more_at_the_end_of_the_time() -> None:
    output = _printed("1\n22\n333")
    search = PatternSearch(re.compile(r"^\d{3}$", re.MULTILINE))
    assert output.take_to(search, 0) == "1\n22\n333"


@pytest.mark.parametrize("search", [TextSearch("needle"), PatternSearch(re.compile("n[e]+dle"))])
def test_what_is_about_to_be_dropped_is_looked_at_before(search: TextSearch | PatternSearch) -> None:
    output = UnreadOutput(100)
    taken: list[str] = []
    thread = threading.Thread(target=lambda: taken.append(output.take_to(search, FOREVER)))
    thread.start()
    assert wait_until(lambda: bool(output._waiting))
    with output._changed:  # so that whoever waits cannot look in between
        output.add(Channel.STDOUT, b"x" * 99)
        output.add(Channel.STDOUT, b"needle")
        output.add(Channel.STDOUT, b"y" * 1000)
    thread.join()
    assert taken == ["x" * 99 + "needle"]
    assert output.take(final=True) == "y" * 100


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


def test_one_that_prints_nothing_is_waited_for_no_longer_than_told(env: BaseEnvironment) -> None:
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


def test_on_a_terminal_lines_end_with_both_signs(env: BaseEnvironment) -> None:
    process = env.start("stty -echo; echo go; read -r line; echo got $line", pty=True)
    assert process.expect("go\r\n", FOREVER).endswith("go\r\n")
    process.write("it\n")
    assert process.expect(re.compile(r"got (\w+)\r?\n"), FOREVER) == "got it\r\n"

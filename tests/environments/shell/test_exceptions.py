"""What is raised in the caller's thread, at whatever moment, never changes what the next command does."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from environments import BaseEnvironment, TerminalError


class Alarm(Exception):
    """What the signal raises."""


@pytest.fixture
def alarm() -> Iterator[None]:
    """Have SIGALRM raise."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("run", ["execute", "execute_oneshot"])
def test_a_callback_that_raises_is_raised_and_the_next_command_is_right(env: BaseEnvironment, run: str) -> None:
    def refuse(text: str) -> None:
        raise KeyError(text)

    for command in ("echo x", "echo x; sleep 100", "yes | head -c 3000000"):
        for _ in range(2):
            with pytest.raises(KeyError):
                getattr(env, run)(command, on_output=refuse)
            assert env.execute("echo y").output == "y\n"
            assert env.execute_oneshot("echo z").output == "z\n"


def test_an_error_of_the_callback_that_looks_like_a_dead_shells_runs_nothing_twice(
    env: BaseEnvironment, tmp_path: Path
) -> None:
    def fail(_: str) -> None:
        raise BrokenPipeError

    for run in (env.execute, env.execute_oneshot):
        with pytest.raises(BrokenPipeError):
            run(f"echo ran >>{tmp_path}/ran; echo out", on_output=fail)
    assert (tmp_path / "ran").read_text() == "ran\nran\n"
    assert env.execute("echo on").output == "on\n"


def test_a_signal_that_raises_at_any_moment_leaves_the_next_command_right(env: BaseEnvironment, alarm: None) -> None:
    env.execute("kept=1; export EXPORTED=2")
    raised = 0
    for number in range(75):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0001 + number * 0.00002)
            env.execute(f"echo {number}; :")
            env.execute_oneshot(f"echo {number}; :")
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Alarm:
            raised += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert env.execute("echo y $EXPORTED").output == "y 2\n"
        assert env.execute_oneshot("echo z").output == "z\n"
    assert raised > 20


def test_a_signal_that_raises_while_a_command_runs_ends_it(env: BaseEnvironment, alarm: None) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(Alarm):
        env.execute("echo $$ >pid; sleep 1000; echo never >after")
    assert env.execute("echo y; ls").output == "y\npid\n"
    assert not env.busy


@pytest.mark.parametrize("timeout", [3e6, 1e300])
def test_a_time_out_beyond_what_the_kernel_takes_is_no_time_out(env: BaseEnvironment, timeout: float) -> None:
    assert env.execute("echo a", timeout=timeout).output == "a\n"
    assert env.execute_oneshot("sleep 0.1; echo b", timeout=timeout).output == "b\n"


def test_execute_from_within_a_command_of_the_same_session_is_an_error_and_beside_it_is_none(
    env: BaseEnvironment,
) -> None:
    seen = []

    def call(text: str) -> None:
        seen.append(env.execute_oneshot("echo beside").output)
        with pytest.raises(TerminalError, match="execute_oneshot"):
            env.execute("echo inner")

    assert env.execute("echo outer", on_output=call).output == "outer\n"
    assert seen == ["beside\n"]
    assert env.execute("echo after").output == "after\n"


def test_a_fatal_option_in_one_command_does_not_end_the_next(env: BaseEnvironment) -> None:
    env.execute("set -e; mkdir d")
    assert env.execute("rmdir nosuch", cwd="/tmp").exit_code != 0
    assert env.execute("echo here; pwd").output.startswith("here\n")


def test_a_callback_that_waits_for_another_thread_of_the_session_does_not_mix_results(env: BaseEnvironment) -> None:
    results: list[str] = []
    other = threading.Thread(target=lambda: results.append(env.execute("echo second").output))

    def start(text: str) -> None:
        if not other.is_alive():
            other.start()
            time.sleep(0.05)

    assert env.execute("echo first", on_output=start).output == "first\n"
    other.join()
    assert results == ["second\n"]

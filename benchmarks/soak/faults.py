"""Faults of commands, injected."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from benchmarks.soak import visible
from benchmarks.soak.work import SUICIDE, Work, expect
from environments.result import KILLED_EXIT_CODE

_ENDLESS = ("sleep 1000", "(setsid sleep 1000 & sleep 1000)", "yes", "(trap '' TERM; sleep 1000 & wait)")


class RaisedError(Exception):
    """An exception that is raised in the middle of a command."""


def time_out(work: Work) -> None:
    """Have a command's time run out."""
    result = work.session(work.chance.choice(_ENDLESS), timeout=0.05 + 0.2 * work.chance.random())
    expect(result.timed_out and not result.survivors, "its time runs out, and nothing survives", result)


def interrupt(work: Work) -> None:
    """Interrupt the session at any moment."""
    with _soon(work, work.env.interrupt):
        result = work.session("sleep 0.1; echo whole")
    expect(result.interrupted or result.output == "whole\n", "it is interrupted, or was quicker", result)


def callback_raises(work: Work) -> None:
    """Raise in `on_output`."""

    def refuse(_: str) -> None:
        raise RaisedError

    run = work.chance.choice((work.session, work.oneshot))
    with contextlib.suppress(RaisedError):
        run("echo begun; sleep 1000", on_output=refuse)
        expect(False, "what a callback raises is raised")


def raised_here(work: Work) -> None:
    """Raise in this thread, at any moment, as control-C does."""
    if threading.current_thread() is not threading.main_thread():
        return
    caller = threading.get_ident()

    def ring(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGUSR1, before)
        raise RaisedError

    before = signal.signal(signal.SIGUSR1, ring)
    with contextlib.suppress(RaisedError), _soon(work, lambda: signal.pthread_kill(caller, signal.SIGUSR1)):
        work.session("sleep 0.05; echo whole")


def kill_session_shell(work: Work) -> None:
    """Let a command kill the session's shell."""
    expect(work.session(SUICIDE).exit_code == KILLED_EXIT_CODE, "that is its result")


def kill_oneshot_shell(work: Work) -> None:
    """Let a command kill the shell it runs in beside the session."""
    expect(work.oneshot(SUICIDE).exit_code == KILLED_EXIT_CODE, "that is its result")


def kill_any_shell(work: Work) -> None:
    """Kill one of our shells while nothing runs: the session's, one for one-shots, or one for commands of our own."""
    _kill_one(work)


def kill_under_commands(work: Work) -> None:
    """Kill one of our shells at any moment while a command runs."""
    with _soon(work, lambda: _kill_one(work)):
        run = work.chance.choice((work.session, work.oneshot))
        expect(run("sleep 0.1; echo whole").output == "whole\n", "what is not lost is whole")


def _kill_one(work: Work) -> None:
    if found := visible.shells(work.name):
        work.kills += 1
        # What the session's shell has last said of its state may not have been read yet.
        work.held |= work.held_before
        visible.kill(work.chance.choice(found))


@contextlib.contextmanager
def _soon(work: Work, act: Callable[[], object]) -> Iterator[None]:
    """Call a function in another thread, within the next tenth of a second."""
    pause = 0.15 * work.chance.random()

    def wait_and_act() -> None:
        time.sleep(pause)
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    try:
        yield
    finally:
        thread.join()


FAULTS = {
    time_out: 3,
    interrupt: 4,
    callback_raises: 4,
    raised_here: 4,
    kill_session_shell: 2,
    kill_oneshot_shell: 2,
    kill_any_shell: 3,
    kill_under_commands: 3,
}
"""Each with its weight."""

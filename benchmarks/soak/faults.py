"""Injected faults of commands."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from benchmarks.soak import processes
from benchmarks.soak.work import SUICIDE, Work, expect
from environments.result import KILLED_EXIT_CODE

_ENDLESS = ("sleep 1000", "(setsid sleep 1000 & sleep 1000)", "yes", "(trap '' TERM; sleep 1000 & wait)")


class RaisedError(Exception):
    """An exception raised in the middle of a command."""


def time_out(work: Work) -> None:
    """Run a command into its time limit."""
    result = work.session(work.chance.choice(_ENDLESS), timeout=0.05 + 0.2 * work.chance.random())
    expect(result.timed_out and not result.survivors, "its time runs out, and nothing survives", result)


def interrupt(work: Work) -> None:
    """Interrupt the session at a random moment."""
    with _concurrently(work, work.env.interrupt):
        result = work.session("sleep 0.1; echo whole")
    expect(result.interrupted or result.output == "whole\n", "it is interrupted, or was quicker", result)


def raise_in_callback(work: Work) -> None:
    """Raise in `on_output`."""

    def refuse(_: str) -> None:
        raise RaisedError

    run = work.chance.choice((work.session, work.oneshot))
    with contextlib.suppress(RaisedError):
        run("echo begun; sleep 1000", on_output=refuse)
        expect(False, "what a callback raises is raised")


def raise_in_main_thread(work: Work) -> None:
    """Raise in the main thread at a random moment, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        return
    caller = threading.get_ident()

    def ring(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGUSR1, before)
        raise RaisedError

    before = signal.signal(signal.SIGUSR1, ring)
    with contextlib.suppress(RaisedError), _concurrently(work, lambda: signal.pthread_kill(caller, signal.SIGUSR1)):
        work.session("sleep 0.05; echo whole")


def kill_session_shell(work: Work) -> None:
    """Let a command kill the session's shell."""
    expect(work.session(SUICIDE).exit_code == KILLED_EXIT_CODE, "that is its result")


def kill_oneshot_shell(work: Work) -> None:
    """Let a one-shot kill its shell."""
    expect(work.oneshot(SUICIDE).exit_code == KILLED_EXIT_CODE, "that is its result")


def kill_any_shell(work: Work) -> None:
    """Kill an internal shell while no command runs: the session's, or a shell for one-shots or internal commands."""
    _kill_one(work)


def kill_under_commands(work: Work) -> None:
    """Kill an internal shell at a random moment of a command."""
    with _concurrently(work, lambda: _kill_one(work)):
        run = work.chance.choice((work.session, work.oneshot))
        expect(run("sleep 0.1; echo whole").output == "whole\n", "what is not lost is whole")


def _kill_one(work: Work) -> None:
    if found := processes.internal_shells(work.name):
        work.kills += 1
        # The last state report of the session's shell may not have been read yet.
        work.held |= work.held_before
        processes.kill(work.chance.choice(found))


@contextlib.contextmanager
def _concurrently(work: Work, act: Callable[[], object]) -> Iterator[None]:
    """Call a function in another thread, within the next 0.15 s."""
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
    raise_in_callback: 4,
    raise_in_main_thread: 4,
    kill_session_shell: 2,
    kill_oneshot_shell: 2,
    kill_any_shell: 3,
    kill_under_commands: 3,
}
"""Each with its weight."""

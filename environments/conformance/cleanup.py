"""Line 9: no remains, in the target or on this machine."""

from __future__ import annotations

import threading
from pathlib import Path

from environments.base import BaseEnvironment
from environments.conformance.check import Subject, beside, check, expect, expect_raised, running, unique, wait_until
from environments.errors import TerminalError
from environments.owner import Owner

DESCRIPTORS = Path("/proc/self/fd")
ROUNDS = 3
"""Number of environments to create: a leak grows with each."""


def _use_everything(env: BaseEnvironment, word: str) -> None:
    job = f"sh -c ': {word}; sleep 1000; :' >/dev/null 2>&1 &"
    env.execute(f"{job} echo started")
    env.execute(f"(setsid {job}) 2>/dev/null; :")
    env.execute("cat", stdin=b"x" * 100_000)
    env.execute(f"exit 3 # {'x' * 100_000}")
    env.execute_oneshot(f"{job}")
    env.execute("sleep 1000", timeout=0.2)
    env.start(f": {word}; sleep 1000")
    env.start("sleep 1000", pty=env.capabilities.pty)


@check(9)
def nothing_is_left_in_the_target(subject: Subject) -> None:
    ours = f"hermes-{Owner.this_process().mark}-*"  # other processes may use the same target
    look = f"ls -d /tmp/{ours} ${{TMPDIR:-/tmp}}/{ours} 2>/dev/null | sort -u"
    before, word = subject.env.execute_oneshot(look).output, unique()
    with subject.make() as env:
        _use_everything(env, word)
    expect(wait_until(lambda: running(subject.env, word) == 0, 2), "no process is left")
    after = subject.env.execute_oneshot(look).output
    expect(set(after.split()) <= set(before.split()), "no file is left", after)


@check(9)
def nothing_is_left_here(subject: Subject) -> None:
    """Count threads and open files, except those that a client library keeps, such as a connection."""
    subject.env.execute("true")
    left: list[str] = []
    for _ in range(ROUNDS):
        threads, descriptors = set(threading.enumerate()), len(list(DESCRIPTORS.iterdir()))
        with subject.make() as env:
            _use_everything(env, unique())
        left = _left_here(threads, descriptors)
        if not left:
            return
    expect(False, f"nothing is left by the last of {ROUNDS} environments", left)


def _left_here(threads: set[threading.Thread], descriptors: int) -> list[str]:
    new = [thread for thread in threading.enumerate() if thread not in threads]
    if not wait_until(lambda: not any(thread.is_alive() for thread in new), 5):
        return [thread.name for thread in new if thread.is_alive()]
    if not wait_until(lambda: len(list(DESCRIPTORS.iterdir())) <= descriptors, 5):
        return [str(path.resolve()) for path in DESCRIPTORS.iterdir()]
    return []


@check(9)
def cleaning_up_ends_what_runs(subject: Subject) -> None:
    env = subject.make()
    env.execute("true")
    with beside(lambda: env.execute("echo so far; sleep 1000", timeout=300)) as results:
        wait_until(lambda: env.busy)
        env.cleanup()
        expect(wait_until(lambda: bool(results), 30), "execute returns")
    expect(bool(results) and results[0].interrupted and results[0].exit_code == 130, "it was interrupted", results)


@check(9)
def cleaning_up_twice_is_harmless_and_what_comes_after_is_refused(subject: Subject) -> None:
    subject.make().cleanup()
    env = subject.make()
    env.execute("true")
    env.cleanup()
    env.cleanup()
    for act in (env.execute, env.execute_oneshot, env.start):
        with expect_raised(TerminalError, f"{act.__name__} after cleanup raises TerminalError"):
            act("echo ran")

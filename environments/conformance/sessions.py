"""Named sessions: each with a state and a turn of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from environments.conformance.check import Check, Subject, expect, expect_output, running, unique, wait_until
from environments.errors import TerminalError
from environments.result import CommandResult
from environments.session import EnvironmentSession

_SECONDS = 60


def _expect_in(session: EnvironmentSession, command: str, output: str, exit_code: int = 0) -> None:
    result = session.execute(command, timeout=_SECONDS)
    expect((result.output, result.exit_code) == (output, exit_code), f"{command!r} gives {output!r}", result)


@contextmanager
def _beside(session: EnvironmentSession, command: str) -> Iterator[list[CommandResult]]:
    """Run a command in another thread, and wait for its result behind the block."""
    results: list[CommandResult] = []
    thread = threading.Thread(target=lambda: results.append(session.execute(command, timeout=_SECONDS)))
    thread.start()
    try:
        yield results
    finally:
        thread.join()


def a_session_of_a_name_has_a_state_of_its_own(subject: Subject) -> None:
    """Its directory, exports, functions and variables are no other's, and the same name is the same session."""
    env = subject.env
    before = env.execute("unset NAMED; pwd", timeout=_SECONDS).output
    with env.session("build", cwd="/") as build, env.session("other") as other:
        _expect_in(build, "pwd; cd /tmp; export NAMED=build; plain=1; f() { echo f; }", "/\n")
        _expect_in(other, "export NAMED=other; exit 3", "", 3)
        expect(env.session("build") is build and build.cwd == "/tmp", "the same name is the same session", build.cwd)
        _expect_in(build, "f; echo $NAMED $plain; pwd", "f\nbuild 1\n/tmp\n")
        _expect_in(other, "echo $NAMED $plain", "other\n")
        expect_output(env, "echo $NAMED; pwd", f"\n{before}")
    try:
        build.execute("true")
    except TerminalError:
        pass
    else:
        expect(False, "one that was closed takes no command")
    with env.session("build") as again:
        _expect_in(again, "echo $NAMED", "\n")


def sessions_run_side_by_side_and_are_interrupted_alone(subject: Subject) -> None:
    """Each has a turn of its own: one command waits for what another session does."""
    env, file, word = subject.env, unique("/tmp/meeting"), unique()
    with env.session("build") as build, env.session("other") as other:
        with _beside(build, f"while [ ! -e {file} ]; do sleep 0.1; done; echo met") as results:
            _expect_in(other, f": >{file}; echo made", "made\n")
        expect(results[0].output == "met\n", "both ran at once", results[0])
        with _beside(build, f"plain=1; sh -c ': {word}; sleep 1000; :'; echo after") as results:
            begun = wait_until(lambda: running(env, word) > 0)
            env.interrupt()
            other.interrupt()
            _expect_in(other, f"rm {file}; echo goes on", "goes on\n")
            expect(begun and build.busy and not results, "an interrupt of others leaves it")
            build.interrupt()
        expect(results[0].interrupted and results[0].exit_code == 130, "its own ends it", results[0])
        expect(not build.busy and running(env, word) == 0, "and nothing is left of the command")


def a_session_that_is_closed_leaves_nothing(subject: Subject) -> None:
    """Neither the command that runs nor what an earlier one left in the background; others go on."""
    env, behind, word = subject.env, unique(), unique()
    env.execute("kept=1", timeout=_SECONDS)
    session = env.session("closed")
    session.execute(f"sh -c ': {behind}; sleep 1000; :' >/dev/null 2>&1 &", timeout=_SECONDS)
    with _beside(session, f"sh -c ': {word}; sleep 1000; :'") as results:
        expect(wait_until(lambda: running(env, behind) > 0 and running(env, word) > 0), "both run")
        session.close()
    expect(results[0].interrupted, "the command was interrupted", results[0])
    expect(wait_until(lambda: running(env, behind) + running(env, word) == 0, 2), "nothing is left")
    expect_output(env, "echo $kept; unset kept", "1\n")


CHECKS = (
    Check(1, a_session_of_a_name_has_a_state_of_its_own),
    Check(4, sessions_run_side_by_side_and_are_interrupted_alone),
    Check(9, a_session_that_is_closed_leaves_nothing),
)

"""Line 4: time-outs and interrupts end everything a command started."""

from __future__ import annotations

import threading
import time
from typing import Any

from environments.base import BaseEnvironment
from environments.conformance.check import Check, Subject, expect, expect_output, running, unique, wait_until
from environments.result import CommandResult

LIMIT = 1.0
PATIENCE = 30.0
"""Seconds in which a command that was ended must have returned, on a loaded machine."""


def _timed_out(env: BaseEnvironment, command: str) -> CommandResult:
    began = time.monotonic()
    result = env.execute(command, timeout=LIMIT)
    expect(result.timed_out and result.exit_code == 124, f"{command!r} times out with 124", result)
    expect(time.monotonic() - began < PATIENCE, "the return does not take for ever", result)
    return result


def a_timed_out_command_keeps_its_output_and_the_session(subject: Subject) -> None:
    """What was printed, and the directory and exports of before."""
    env, name = subject.env, unique("V")
    home = env.cwd
    env.execute(f"export {name}=kept; cd /tmp")
    result = _timed_out(env, "echo so far; sleep 1000; echo never")
    expect(result.output == "so far\n", "the output so far is kept, and nothing runs after it", result)
    expect_output(env, f"pwd; echo ${name}; unset {name}; cd '{home}'", "/tmp\nkept\n")


def a_timeout_ends_the_whole_tree(subject: Subject) -> None:
    """Children, those in sessions of their own, those that ignore TERM, and those without an environment.

    A child of the session's shell is found without an environment and without a descriptor, too.
    """
    env = subject.env
    closing = "3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; if [ -n \"${{BASH_VERSION-}}\" ]; then eval 'exec 29>&-'; fi"
    for start in (
        "sh -c ': {0}; sleep 1000; :'",
        "(sh -c ': {0}; sleep 1000; :' &); sleep 1000",
        "sh -c 'trap \"\" TERM; : {0}; while :; do sleep 1000; done'",
        "env -i sh -c ': {0}; sleep 1000; :' & sleep 1000",
        "while :; do sh -c ': {0}; sleep 1000; :'; done",
        f"(exec </dev/null >/dev/null 2>&1 {closing}; exec env -i sh -c ': {{0}}; sleep 1000; :') & sleep 1000",
        "if command -v setsid >/dev/null; then setsid sh -c ': {0}; sleep 1000; :' & fi; sleep 1000",
        "if command -v nohup >/dev/null; then nohup sh -c ': {0}; sleep 1000; :' >/dev/null 2>&1 & fi; sleep 1000",
    ):
        word = unique()
        _timed_out(env, start.format(word))
        gone = wait_until(lambda word=word: running(env, word) == 0, 2)  # type: ignore[misc]
        expect(gone, f"nothing is left of {start!r} two seconds after the return")
    expect_output(env, "echo after", "after\n")


def a_loop_of_builtins_is_ended(subject: Subject) -> None:
    """There is no child that could be killed."""
    env = subject.env
    _timed_out(env, "while :; do :; done")
    expect_output(env, "echo after", "after\n")


def a_command_that_ignores_every_signal_it_can_is_ended(subject: Subject) -> None:
    """In the session's own shell."""
    env = subject.env
    home = env.cwd
    _timed_out(env, "trap '' TERM INT HUP USR1 USR2; while :; do sleep 0.1; done")
    expect_output(env, "pwd", f"{home}\n")


def an_interrupt_ends_the_command(subject: Subject) -> None:
    """From another thread, with 130."""
    env, word = subject.env, unique()
    results: list[CommandResult] = []
    arrived = threading.Event()
    command = f"echo so far; sh -c ': {word}; sleep 1000; :'"

    def run() -> None:
        results.append(env.execute(command, timeout=300, on_output=lambda _: arrived.set()))

    thread = threading.Thread(target=run)
    thread.start()
    expect(arrived.wait(PATIENCE), "output comes while the command runs")
    expect(wait_until(lambda: running(env, word) > 0), "the command has begun")
    env.interrupt()
    thread.join(PATIENCE)
    expect(not thread.is_alive(), "execute returns")
    result = results[0]
    expect(result.interrupted and not result.timed_out and result.exit_code == 130, "it says so", result)
    expect(result.output == "so far\n", "the output so far is kept", result)
    expect(wait_until(lambda: running(env, word) == 0, 2), "nothing is left of it")
    expect_output(env, "echo after", "after\n")


def an_interrupt_with_nothing_running_does_nothing(subject: Subject) -> None:
    """Not to the next command either."""
    env = subject.env
    env.interrupt()
    expect_output(env, "echo fine", "fine\n")


def exiting_124_or_130_is_not_being_ended(subject: Subject) -> None:
    """A command may use these codes itself."""
    env = subject.env
    for code in (124, 130, 137, 143):
        for result in (env.execute(f"(exit {code})"), env.execute_oneshot(f"exit {code}")):
            expect(result.exit_code == code, f"exit {code} gives {code}", result)
            expect(not result.timed_out and not result.interrupted, "and is neither", result)


def a_timeout_spares_what_earlier_commands_left_running(subject: Subject) -> None:
    """A background job is not part of the command that timed out."""
    env, word = subject.env, unique()
    env.execute(f"sh -c ': {word}; sleep 1000; :' >/dev/null 2>&1 & echo $! >/tmp/{word}")
    _timed_out(env, "sleep 1000")
    expect(running(env, word) == 1, "the earlier job still runs")
    env.execute(f"kill $(cat /tmp/{word}); rm /tmp/{word}")


def a_timeout_beside_the_session_ends_its_own_tree(subject: Subject) -> None:
    """And leaves the session's command alone."""
    env, word = subject.env, unique()
    result = env.execute_oneshot(f"echo so far; (sh -c ': {word}; sleep 1000; :' &); sleep 1000", timeout=LIMIT)
    expect(result.timed_out and result.exit_code == 124 and result.output == "so far\n", "it times out", result)
    expect(wait_until(lambda: running(env, word) == 0, 2), "nothing is left of it")


def a_timeout_that_ends_a_child_leaves_the_shell(subject: Subject) -> None:
    """With its plain variables, where the target has bash."""
    env = subject.env
    if env.capabilities.shell != "bash":
        return
    pid = env.execute("plain=1; echo $$").output
    for command in ("sleep 1000; echo never", "f() { sleep 1000; echo never; }; f; echo never", "while :; do :; done"):
        result = _timed_out(env, command)
        expect("never" not in result.output, "nothing behind it runs", result)
        expect_output(env, "echo $$; echo $plain", f"{pid}1\n")
    env.execute("unset plain")


def a_command_times_out_however_fast_its_output_comes(subject: Subject) -> None:
    """And however slow its reader is."""
    env = subject.env
    result = env.execute("yes", timeout=LIMIT, on_output=lambda _: time.sleep(0.01))
    expect(result.timed_out and result.exit_code == 124, "an endless printer times out", result.exit_code)
    expect(result.survivors == (), "and nothing of it is left", result.survivors)
    expect_output(env, "echo after", "after\n")


def a_command_is_ended_while_its_reader_is_away(subject: Subject) -> None:
    """Its callback does not return before the command is gone, which leaves the session as it was."""
    env, name, gone = subject.env, unique("V"), []
    env.execute(f"export {name}=kept")
    for arguments in ({"timeout": LIMIT}, {"interrupt": threading.Event()}):
        word = unique()

        def wait_for_the_end(_: str, word: str = word, arguments: dict[str, Any] = arguments) -> None:
            if event := arguments.get("interrupt"):
                event.set()
            gone.append(wait_until(lambda: running(env, word) == 0, PATIENCE))

        result = env.execute(f"echo so far; sh -c ': {word}; sleep 1000; :'", on_output=wait_for_the_end, **arguments)
        expect(result.timed_out is ("timeout" in arguments) and not result.ok, "it was ended for its reason", result)
        expect(result.output == "so far\n", "with the output so far", result)
    expect(gone == [True, True], "nothing was left while the callback had not returned", gone)
    expect_output(env, f"echo ${name}; unset {name}", "kept\n")


CHECKS = tuple(
    Check(4, run)
    for run in (
        a_timeout_that_ends_a_child_leaves_the_shell,
        a_command_times_out_however_fast_its_output_comes,
        a_command_is_ended_while_its_reader_is_away,
        a_timed_out_command_keeps_its_output_and_the_session,
        a_timeout_ends_the_whole_tree,
        a_loop_of_builtins_is_ended,
        a_command_that_ignores_every_signal_it_can_is_ended,
        an_interrupt_ends_the_command,
        an_interrupt_with_nothing_running_does_nothing,
        exiting_124_or_130_is_not_being_ended,
        a_timeout_spares_what_earlier_commands_left_running,
        a_timeout_beside_the_session_ends_its_own_tree,
    )
)

"""Line 8: a target that goes away, and exceptions of the caller."""

from __future__ import annotations

from environments.conformance.check import (
    Subject,
    beside,
    check,
    expect,
    expect_output,
    expect_raised,
    unique,
    wait_until,
)
from environments.errors import EnvironmentLostError, TerminalError
from environments.result import CommandResult


@check(8)
def a_shell_killed_under_a_command_does_not_run_it_twice(subject: Subject) -> None:
    """And the next command works."""
    env, name = subject.env, unique("/tmp/count")
    home = env.cwd
    ended: list[CommandResult | EnvironmentLostError] = []

    def run() -> None:
        try:
            ended.append(env.execute(f"echo $$ >{name}.pid; echo ran >>{name}; sleep 1000", timeout=120))
        except EnvironmentLostError as error:
            ended.append(error)

    pid = ""

    def begun() -> bool:
        nonlocal pid
        pid = env.execute_oneshot(f"cat {name}.pid 2>/dev/null").output.strip()
        return bool(pid)

    with beside(run):
        expect(wait_until(begun), "the command has begun")
        env.execute_oneshot(f"kill -9 {pid}")
        expect(wait_until(lambda: bool(ended), 60), "execute returns or raises")
    expect_output(env, f"cat {name}; rm {name} {name}.pid; pwd", f"ran\n{home}\n")


@check(8)
def a_lost_target_is_an_error_and_the_next_command_works(subject: Subject) -> None:
    """The command under way is not run again."""
    if subject.lose_target is None:
        return
    with subject.make() as env:
        began: list[str] = []

        def run() -> EnvironmentLostError | CommandResult:
            try:
                return env.execute("echo begun; sleep 1000", timeout=120, on_output=began.append)
            except EnvironmentLostError as error:
                return error

        with beside(run) as ended:
            expect(wait_until(lambda: bool(began)), "the command has begun")
            subject.lose_target(env)
            wait_until(lambda: bool(ended), 90)
        expect(isinstance(ended[0], EnvironmentLostError), "it raises EnvironmentLostError", ended)
        expect(ended[0].output == "begun\n", "which has the output so far", ended)
        expect_output(env, "echo again", "again\n")
        expect(env.execute_oneshot("echo beside").output == "beside\n", "also beside the session")


class _CallbackError(Exception):
    """What a callback raises."""


@check(8)
def an_exception_of_the_caller_changes_nothing_for_the_next_command(subject: Subject) -> None:
    """Of a callback, in the session and beside it; and a command within a command is an error."""
    env = subject.env

    def refuse(text: str) -> None:
        raise _CallbackError(text)

    def call(text: str) -> None:
        env.execute("echo inner")

    for run in (env.execute, env.execute_oneshot):
        for command in ("echo x", "echo x; sleep 1000"):
            with expect_raised(_CallbackError, "what a callback raises is raised"):
                run(command, on_output=refuse, timeout=60)
            expect_output(env, "echo y", "y\n")
            expect(env.execute_oneshot("echo z").output == "z\n", "also beside the session")
    with expect_raised(TerminalError, "execute within execute of the same session is an error"):
        env.execute("echo outer", on_output=call, timeout=60)
    expect_output(env, "echo y", "y\n")

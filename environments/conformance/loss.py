"""Line 8: a lost target, and exceptions of the caller."""

from __future__ import annotations

from typing import Any

from environments.base import BaseEnvironment
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


def _result_or_loss(env: BaseEnvironment, command: str, **arguments: Any) -> CommandResult | EnvironmentLostError:  # noqa: ANN401
    try:
        return env.execute(command, timeout=120, **arguments)
    except EnvironmentLostError as error:
        return error


@check(8)
def a_shell_killed_under_a_command_does_not_run_it_twice(subject: Subject) -> None:
    env, name = subject.env, unique("/tmp/count")
    home = env.cwd
    with beside(lambda: _result_or_loss(env, f"echo $$ >{name}.pid; echo ran >>{name}; sleep 1000")) as ended:
        expect(wait_until(lambda: env.execute_oneshot(f"[ -s {name}.pid ]").ok), "the command has begun")
        env.execute_oneshot(f"kill -9 $(cat {name}.pid)")
        expect(wait_until(lambda: bool(ended), 60), "execute returns or raises")
    expect_output(env, f"cat {name}; rm {name} {name}.pid; pwd", f"ran\n{home}\n")


@check(8)
def a_lost_target_is_an_error_and_the_next_command_works(subject: Subject) -> None:
    if subject.lose_target is None:
        return
    with subject.make() as env:
        began: list[str] = []
        with beside(lambda: _result_or_loss(env, "echo begun; sleep 1000", on_output=began.append)) as ended:
            expect(wait_until(lambda: bool(began)), "the command has begun")
            subject.lose_target(env)
            wait_until(lambda: bool(ended), 90)
        expect(isinstance(ended[0], EnvironmentLostError), "it raises EnvironmentLostError", ended)
        expect(ended[0].output == "begun\n", "which has the output so far", ended)
        expect_output(env, "echo again", "again\n")
        expect(env.execute_oneshot("echo beside").output == "beside\n", "also beside the session")


class _CallbackError(Exception):
    """The error of a callback."""


@check(8)
def an_exception_of_the_caller_changes_nothing_for_the_next_command(subject: Subject) -> None:
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

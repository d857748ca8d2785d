"""Line 10, and bad arguments: what cannot be done is refused and named."""

from __future__ import annotations

from collections.abc import Callable

from environments.base import BaseEnvironment
from environments.conformance.check import Check, Subject, expect, expect_output
from environments.errors import UnsupportedError


def a_limit_that_cannot_be_enforced_is_refused(subject: Subject) -> None:
    """By name, before anything runs."""
    for name, value in subject.refused_settings.items():
        try:
            with subject.make(**{name: value}) as env:
                env.execute("true")
        except UnsupportedError as error:
            expect(name in str(error), f"the error names {name}", str(error))
        else:
            expect(False, f"{name} raises UnsupportedError")


def a_limit_that_is_enforced_is_declared(subject: Subject) -> None:
    """A setting is one or the other."""
    both = subject.env.capabilities.enforced_limits & set(subject.refused_settings)
    expect(not both, "no setting is both enforced and refused", both)


def bad_arguments_are_refused_and_harm_nothing(subject: Subject) -> None:
    """With ValueError."""
    env = subject.env
    acts: tuple[Callable[[BaseEnvironment], object], ...] = (
        lambda env: env.execute("echo \0"),
        lambda env: env.execute("echo", timeout=0),
        lambda env: env.execute("echo", timeout=-1),
        lambda env: env.execute("echo", cwd=""),
        lambda env: env.execute("echo", stderr="apart"),  # type: ignore[arg-type]
        lambda env: env.execute_oneshot("echo \0"),
        lambda env: env.start("echo \0"),
    )
    for act in acts:
        try:
            act(env)
        except ValueError:
            continue
        expect(False, "it raises ValueError")
    expect_output(env, "echo fine", "fine\n")


def an_error_of_the_callback_ends_the_command_and_comes_out(subject: Subject) -> None:
    """The session goes on."""

    class OwnError(Exception):
        pass

    def fail(text: str) -> None:
        raise OwnError(text)

    try:
        result = subject.env.execute("echo a; sleep 1000", timeout=120, on_output=fail)
    except OwnError:
        pass
    else:
        expect(False, "the callback's error is raised", result)
    expect_output(subject.env, "echo fine", "fine\n")


CHECKS = tuple(
    Check(10, run)
    for run in (
        a_limit_that_cannot_be_enforced_is_refused,
        a_limit_that_is_enforced_is_declared,
        bad_arguments_are_refused_and_harm_nothing,
        an_error_of_the_callback_ends_the_command_and_comes_out,
    )
)

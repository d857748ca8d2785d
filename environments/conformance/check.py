"""Conformance checks, the backend under test, and helpers."""

from __future__ import annotations

import contextlib
import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from environments.base import BaseEnvironment
from environments.result import CommandResult
from environments.session import EnvironmentSession

ErrorT = TypeVar("ErrorT", bound=BaseException)
ResultT = TypeVar("ResultT")


class ConformanceError(AssertionError):
    """A backend violates the contract."""


@dataclass
class Subject:
    """A backend under test.

    Args:
        make: Builds an environment; keyword arguments are settings over the usual ones.
        lose_target: Destroys the target of an environment as in an accident; None if impossible, such as on this
            machine.
        refused_settings: Settings that the backend cannot enforce, each with a value.
    """

    make: Callable[..., BaseEnvironment]
    lose_target: Callable[[BaseEnvironment], None] | None = None
    refused_settings: dict[str, object] = field(default_factory=dict)
    _env: BaseEnvironment | None = None

    @property
    def env(self) -> BaseEnvironment:
        """An environment shared by the checks. A check must not leave a change visible to other checks."""
        if self._env is None:
            self._env = self.make()
        return self._env

    def close(self) -> None:
        """Clean up the shared environment."""
        if self._env:
            self._env.cleanup()
            self._env = None


@dataclass(frozen=True, slots=True)
class Check:
    """A promise kept by every backend."""

    line: int
    """Line of the contract, see docs/reliability.md."""
    run: Callable[[Subject], None]
    """Raises ConformanceError on a violation."""

    @property
    def name(self) -> str:
        """The check as a sentence with underscores."""
        return self.run.__name__

    @property
    def group(self) -> str:
        """Name of the module, such as `ending`."""
        return self.run.__module__.rpartition(".")[2]


ADDED: list[Check] = []
"""The checks of the imported modules."""


def check(line: int) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Register a function as a check of a line of the contract."""

    def added(run: Callable[[Subject], None]) -> Callable[[Subject], None]:
        ADDED.append(Check(line, run))
        return run

    return added


def expect(holds: bool, what: str, result: CommandResult | object = None) -> None:
    """Raise ConformanceError unless `holds`.

    Args:
        holds: The condition.
        what: The expectation.
        result: The observation.
    """
    if not holds:
        raise ConformanceError(f"{what}; found {result!r}" if result is not None else what)


@contextlib.contextmanager
def expect_raised(kind: type[ErrorT], what: str) -> Iterator[list[ErrorT]]:
    """Expect an error in the block, yielded as the only item of the list.

    Args:
        kind: Class of the error.
        what: The expectation.
    """
    raised: list[ErrorT] = []
    try:
        yield raised
    except kind as error:
        raised.append(error)
    expect(bool(raised), what)


@contextlib.contextmanager
def beside(run: Callable[[], ResultT]) -> Iterator[list[ResultT]]:
    """Run a function in another thread during the block. The result becomes the only item of the list."""
    results: list[ResultT] = []
    thread = threading.Thread(target=lambda: results.append(run()))
    thread.start()
    try:
        yield results
    finally:
        thread.join()


def expect_output(env: BaseEnvironment | EnvironmentSession, command: str, output: str, exit_code: int = 0) -> None:
    """Run a command in a session and compare its output."""
    result = env.execute(command, timeout=60)
    expect((result.output, result.exit_code) == (output, exit_code), f"{command!r} gives {output!r}", result)


def unique(prefix: str = "check") -> str:
    """Return a unique word."""
    return f"{prefix}_{secrets.token_hex(6)}"


def running(env: BaseEnvironment, argument: str) -> int:
    """Count the target's processes with a word among their arguments, by `/proc` or `ps`.

    The search does not match its own arguments.
    """
    pattern = f"[{argument[0]}]{argument[1:]}"
    look = f"grep -zls -- {shlex.quote(pattern)} /proc/[0-9]*/cmdline"
    by_ps = f"ps -A -ww -o pid= -o command= | sed -n {shlex.quote(f's/^ *//; /{pattern}/s/ .*//p')}"
    result = env.execute_oneshot(f"if [ -e /proc/self/stat ]; then {look}; else {by_ps}; fi", timeout=60)
    return len(result.output.split())


def wait_until(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Wait for a condition, and return its final value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return holds()

"""Checks, their subject, and helpers for them."""

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
    """A backend does not do what the contract says."""


@dataclass
class Subject:
    """A backend under test.

    Args:
        make: Builds an environment of it, with its keyword arguments as settings over the usual ones.
        lose_target: Makes the target of an environment go away as it would by an accident; None where that can't
            happen, as on this machine.
        refused_settings: Settings that this backend cannot enforce, each with a value.
    """

    make: Callable[..., BaseEnvironment]
    lose_target: Callable[[BaseEnvironment], None] | None = None
    refused_settings: dict[str, object] = field(default_factory=dict)
    _env: BaseEnvironment | None = None

    @property
    def env(self) -> BaseEnvironment:
        """An environment that the checks share. None may leave it changed in a way that the others could notice."""
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
    """One thing that holds for every backend."""

    line: int
    """The line of the contract it belongs to."""
    run: Callable[[Subject], None]
    """Raises ConformanceError where it does not hold."""

    @property
    def name(self) -> str:
        """The check as a sentence with underscores."""
        return self.run.__name__

    @property
    def group(self) -> str:
        """The name of its file, such as `ending`."""
        return self.run.__module__.rpartition(".")[2]


ADDED: list[Check] = []
"""The checks of the modules that were imported."""


def check(line: int) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Add a function to the checks of a line of the contract."""

    def added(run: Callable[[Subject], None]) -> Callable[[Subject], None]:
        ADDED.append(Check(line, run))
        return run

    return added


def expect(holds: bool, what: str, result: CommandResult | object = None) -> None:
    """Raise ConformanceError unless `holds`.

    Args:
        holds: The condition.
        what: What should have held.
        result: What was found instead.
    """
    if not holds:
        raise ConformanceError(f"{what}; found {result!r}" if result is not None else what)


@contextlib.contextmanager
def expect_raised(kind: type[ErrorT], what: str) -> Iterator[list[ErrorT]]:
    """Expect an error of a kind from the block. It is the one item of the list.

    Args:
        kind: Its class.
        what: What should have raised it, or should not have been done.
    """
    raised: list[ErrorT] = []
    try:
        yield raised
    except kind as error:
        raised.append(error)
    expect(bool(raised), what)


@contextlib.contextmanager
def beside(run: Callable[[], ResultT]) -> Iterator[list[ResultT]]:
    """Run a function in another thread during the block. Its result is the one item of the list."""
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
    """Return a word that is used nowhere else."""
    return f"{prefix}_{secrets.token_hex(6)}"


def running(env: BaseEnvironment, argument: str) -> int:
    """Count the processes of the target that have a word among their arguments, in `/proc` or else by `ps`.

    The pattern does not match the arguments of the search itself.
    """
    pattern = f"[{argument[0]}]{argument[1:]}"
    look = f"grep -zls -- {shlex.quote(pattern)} /proc/[0-9]*/cmdline"
    by_ps = f"ps -A -ww -o pid= -o command= | sed -n {shlex.quote(f's/^ *//; /{pattern}/s/ .*//p')}"
    result = env.execute_oneshot(f"if [ -e /proc/self/stat ]; then {look}; else {by_ps}; fi", timeout=60)
    return len(result.output.split())


def wait_until(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Wait until a condition holds, and return whether it does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return holds()

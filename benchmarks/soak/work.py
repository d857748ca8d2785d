"""The context of the soak test: an environment, a seeded random generator, and counts of work done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from environments import BaseEnvironment, CommandResult, EnvironmentLostError, TerminalError
from environments.result import KILLED_EXIT_CODE

LONG = 300.0
"""The time limit of a command that ends by itself, enough for any machine."""


SUICIDE = "kill -9 $$"


class MissedError(Exception):
    """A command's shell was killed by a fault. The result is the same as for a command that kills its shell."""


class SoakError(AssertionError):
    """A result was wrong."""


@dataclass
class Work:
    """The work on an environment."""

    env: BaseEnvironment
    chance: Random
    directory: str
    """A directory in the target for files of the work."""
    name: str
    """The environment's name, the prefix of its markers."""
    commands: int = 0
    calls: int = 0
    done: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    """The number of killed shells and relays without a lost command so far."""
    held: set[str] = field(default_factory=lambda: {""})
    """Possible values of the session's variable: several after a lost command."""
    held_before: set[str] = field(default_factory=lambda: {""})
    """Possible values before the last change. A killed shell may not have reported the change."""

    def session(self, command: str, **options: object) -> CommandResult:
        """Run a command in the session."""
        return self._run(self.env.execute, command, options)

    def oneshot(self, command: str, **options: object) -> CommandResult:
        """Run a one-shot."""
        return self._run(self.env.execute_oneshot, command, options)

    def _run(self, run: Callable[..., CommandResult], command: str, options: Mapping[str, object]) -> CommandResult:
        self.commands += 1
        result = run(command, **{"timeout": LONG, **options})
        if result.exit_code == KILLED_EXIT_CODE and SUICIDE not in command:
            raise MissedError(f"a shell was killed under {command[:100]!r}")
        return result

    def perform(self, action: Callable[[Work], None]) -> None:
        """Call a function. A killed shell may cost a command its result.

        Raises:
            SoakError: A result was wrong.
        """
        with self.counted(action.__name__):
            action(self)

    @contextmanager
    def counted(self, name: str) -> Iterator[None]:
        """Count the work of the block."""
        self.done[name] += 1
        try:
            yield
        except (TerminalError, MissedError) as error:
            # A failed write of a file reports only the exit code of the killed shell.
            if not isinstance(error, EnvironmentLostError | MissedError) and f"exit code {KILLED_EXIT_CODE}" not in str(
                error
            ):
                raise
            self.done["lost, after a kill"] += 1
            self.kills -= 1
            if self.kills < 0:
                raise SoakError(f"{name}: no shell had been killed, and yet: {error}") from error
        except SoakError as error:
            raise SoakError(f"{name}: {error}") from error


def expect(holds: bool, what: str, found: object = "") -> None:
    """Check a condition.

    Raises:
        SoakError: The condition is false.
    """
    if not holds:
        raise SoakError(f"{what}: {str(found)[:1000]}")

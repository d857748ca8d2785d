"""What the work has to go by: an environment, chances that can be had again, and what was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from environments import BaseEnvironment, CommandResult, EnvironmentLostError, TerminalError
from environments.result import KILLED_EXIT_CODE

LONG = 300.0
"""Seconds in which a command that is not to be ended has to end on any machine."""


SUICIDE = "kill -9 $$"


class MissedError(Exception):
    """The shell of a command was killed, and it looks as if the command had done it."""


class SoakError(AssertionError):
    """Something was not as it has to be."""


@dataclass
class Work:
    """What is done on one environment."""

    env: BaseEnvironment
    chance: Random
    directory: str
    """A directory in the target for files of the work."""
    name: str
    """The environment's, see `visible`."""
    commands: int = 0
    calls: int = 0
    done: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    """How many of our shells and relays were killed and have not been missed yet."""
    held: set[str] = field(default_factory=lambda: {""})
    """What the session's variable may be: more than one thing after a command that changed it was lost."""
    held_before: set[str] = field(default_factory=lambda: {""})
    """What it may have been before its last change, which a shell that is killed may not have told."""

    def session(self, command: str, **options: object) -> CommandResult:
        """Run a command in the session."""
        return self._run(self.env.execute, command, options)

    def oneshot(self, command: str, **options: object) -> CommandResult:
        """Run a command beside it."""
        return self._run(self.env.execute_oneshot, command, options)

    def _run(self, run: Callable[..., CommandResult], command: str, options: Mapping[str, object]) -> CommandResult:
        self.commands += 1
        result = run(command, **{"timeout": LONG, **options})
        if result.exit_code == KILLED_EXIT_CODE and SUICIDE not in command:
            raise MissedError(f"a shell was killed under {command[:100]!r}")
        return result

    def do(self, deed: Callable[[Work], None]) -> None:
        """Do something. A shell that was killed may cost one command its result.

        Raises:
            SoakError: It was not as it has to be.
        """
        with self.noted(deed.__name__):
            deed(self)

    @contextmanager
    def noted(self, name: str) -> Iterator[None]:
        """Count what is done in the block."""
        self.done[name] += 1
        try:
            yield
        except (TerminalError, MissedError) as error:
            # A file that could not be written because of it says no more than the exit code.
            if not isinstance(error, EnvironmentLostError | MissedError) and f"exit code {KILLED_EXIT_CODE}" not in str(
                error
            ):
                raise
            self.done["lost, after a kill"] += 1
            self.kills -= 1
            if self.kills < 0:
                raise SoakError(f"{name}: nothing had been killed, and yet: {error}") from error
        except SoakError as error:
            raise SoakError(f"{name}: {error}") from error


def expect(holds: bool, what: str, found: object = "") -> None:
    """Make sure of something.

    Raises:
        SoakError: It does not hold.
    """
    if not holds:
        raise SoakError(f"{what}: {str(found)[:1000]}")

"""Having an environment ready before it is used, and using it anew: what a pool asks of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from environments.errors import UnsupportedError
from environments.settings import EnvironmentSettings


class Readiness(ABC):
    """The part of every environment by which it is started ahead."""

    settings: EnvironmentSettings
    starts_at_once: ClassVar[int | None] = 16
    """How many targets should be started at the same time in one place, see `start_place`; None is no limit."""
    starts_per_second: ClassVar[float | None] = None
    """How many starts may begin in a second in one place; None is no limit."""

    look_interval: ClassVar[float] = 2.0
    """Seconds between looks whether one that waits to be used `is_ready` still."""

    @classmethod
    def start_place(cls, settings: EnvironmentSettings) -> str:
        """Name what a limit of starts is a limit of, such as an engine's address; the backend as a whole, by default.

        Args:
            settings: Lead there.

        Raises:
            SettingsError: They cannot be understood.
        """
        return repr(settings.own_over) if settings.over else ""

    @abstractmethod
    def session_variable(self, name: str) -> str:
        """Return a variable as the session's last command left it."""

    def prepare(self) -> None:
        """Start the target unless it is up, and open the session, so that the first command finds all ready.

        Raises:
            EnvironmentStartError: The target could not be started, or the session not be opened.
            TerminalError: The environment was cleaned up.
        """
        self.session_variable("PWD")

    @property
    def is_ready(self) -> bool:
        """Whether what `prepare` has made is still there. The target is asked only where that is not told otherwise."""
        return True

    def renew(self) -> None:
        """End all that was started in the environment, and have its next command begin a new session.

        The target stays as it is, with its files. Nobody may use the environment meanwhile.

        Raises:
            UnsupportedError: The backend cannot do it.
            TerminalError: Something could not be ended, or the target is lost.
        """
        raise UnsupportedError(f"backend {self.settings.env!r} cannot have a new session in the same target")

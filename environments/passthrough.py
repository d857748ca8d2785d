"""Variables of this process that an environment hands on to what runs in it, allowed by name."""

from __future__ import annotations

import os
from collections.abc import Iterable

from environments.variables import check_names


class Passthrough:
    """The names that are allowed in one environment. Values are those that this process has when they are used.

    Args:
        names: Those that the settings allow.

    Raises:
        SettingsError: One could not be a variable's.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._first = self._names = dict.fromkeys(check_names("terminal.env_passthrough", names))

    def allow(self, names: Iterable[object]) -> tuple[str, ...]:
        """Allow more variables, and return their names.

        What is set now reaches scripts and commands beside the session at once, and the session with its next command.

        Raises:
            SettingsError: One could not be a variable's.
        """
        checked = check_names("the passthrough list", names)
        self._names = {**self._names, **dict.fromkeys(checked)}  # others may be reading the old one
        return checked

    def renew(self) -> None:
        """Allow no others than the settings do."""
        self._names = self._first

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are allowed."""
        return tuple(self._names)

    def values(self) -> dict[str, str]:
        """Return the variables that are allowed and set here, with their values."""
        return {name: os.environ[name] for name in self._names if name in os.environ}

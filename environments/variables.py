"""Environment variables: names, those of this process, those set in a target, and the passthrough list."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping

from environments.errors import SettingsError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_name(text: str) -> bool:
    """Return True if a text is a valid variable name."""
    return _NAME.fullmatch(text) is not None


def own_variables() -> dict[str, str]:
    """Return the variables of this process, safe against concurrent removals."""
    while True:
        with contextlib.suppress(KeyError, RuntimeError):
            return dict(os.environ)


def variables_named(names: Iterable[str]) -> dict[str, str]:
    """Return the variables of this process with given names, if set."""
    return {name: value for name in names if (value := os.environ.get(name)) is not None}


def check_names(setting: str, names: Iterable[object]) -> tuple[str, ...]:
    """Validate names of variables.

    Args:
        setting: Source of the names, for the error.
        names: The names.

    Raises:
        SettingsError: A name is not valid for a variable.
    """
    checked = []
    for name in names:
        if not isinstance(name, str) or not is_name(name):
            raise SettingsError(f"{setting}: {name!r:.100} is not the name of a variable")
        checked.append(name)
    return tuple(checked)


def for_target(env: Mapping[str, str], forward_env: Iterable[str]) -> dict[str, str]:
    """Return the variables to set in a target.

    Args:
        env: Variables with values. They override forwarded variables.
        forward_env: Names of variables of this process to forward, if set.
    """
    return {**variables_named(forward_env), **env}


class Passthrough:
    """The passthrough list of an environment: variable names. Values are read from this process at each use.

    Args:
        names: Names allowed by the settings.

    Raises:
        SettingsError: A name is not valid for a variable.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.fixed: Mapping[str, str] = {}
        """Variables with fixed, non-secret values, which override those of this process."""
        self._first = self._names = dict.fromkeys(check_names("terminal.env_passthrough", names))

    def allow(self, names: Iterable[object]) -> tuple[str, ...]:
        """Allow more variables, and return their names.

        Scripts and commands beside the session receive them at once, the session with its next command.

        Raises:
            SettingsError: A name is not valid for a variable.
        """
        checked = check_names("the passthrough list", names)
        self._names = {**self._names, **dict.fromkeys(checked)}  # a copy: other threads may read the old one
        return checked

    def renew(self) -> None:
        """Reset the list to that of the settings."""
        self._names = self._first

    @property
    def names(self) -> tuple[str, ...]:
        """The allowed names."""
        return tuple(self._names)

    def values(self) -> dict[str, str]:
        """Return the allowed variables that are set, with their values."""
        return variables_named(self._names)

    def all_values(self) -> dict[str, str]:
        """Return the variables for commands and scripts: the allowed and the fixed ones."""
        return {**self.values(), **self.fixed}

"""Variables that a backend sets in its target, and those of this process that are handed on there."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping

from environments.errors import SettingsError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_name(text: str) -> bool:
    """Whether a text can be the name of a variable."""
    return _NAME.fullmatch(text) is not None


def own_variables() -> dict[str, str]:
    """Return the variables of this process, also while another thread removes some."""
    while True:
        with contextlib.suppress(KeyError, RuntimeError):
            return dict(os.environ)


def variables_named(names: Iterable[str]) -> dict[str, str]:
    """Return the variables of this process with certain names, as far as they are set."""
    return {name: value for name in names if (value := os.environ.get(name)) is not None}


def check_names(setting: str, names: Iterable[object]) -> tuple[str, ...]:
    """Check names of variables, and return them.

    Args:
        setting: Where they stand, for the error.
        names: The names.

    Raises:
        SettingsError: One could not be a variable's.
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
        env: Variables with their values. They go before forwarded ones of the same name.
        forward_env: Names of variables of this process; one that is not set here is not set there.
    """
    return {**variables_named(forward_env), **env}


class Passthrough:
    """The names that are allowed in one environment. Values are those that this process has when they are used.

    Args:
        names: Those that the settings allow.

    Raises:
        SettingsError: One could not be a variable's.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.fixed: Mapping[str, str] = {}
        """Variables with values that are no secrets and go before those of this process."""
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
        return variables_named(self._names)

    def all_values(self) -> dict[str, str]:
        """Return what commands and scripts are given: the same, and the fixed variables."""
        return {**self.values(), **self.fixed}

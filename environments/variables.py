"""Variables that a backend sets for everything that runs in its target."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from environments.errors import SettingsError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_name(text: str) -> bool:
    """Whether a text can be the name of a variable."""
    return _NAME.fullmatch(text) is not None


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
    return {**{name: os.environ[name] for name in forward_env if name in os.environ}, **env}

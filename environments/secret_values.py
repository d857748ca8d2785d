"""Which values are secret, here and in each environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import fields
from weakref import WeakSet

from environments.clean_environment import SAFE_NAMES
from environments.passthrough import Passthrough
from environments.secret_names import names_secret
from environments.settings import BackendSettings, EnvironmentSettings

_URL_WITH_USER = r"(?i)[a-z][a-z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@"


class SecretValues:
    """What is secret in one environment.

    Args:
        settings: May hold some.
        passthrough: What is passed through is secret too.
    """

    def __init__(self, settings: EnvironmentSettings, passthrough: Passthrough) -> None:
        self._settings = settings
        self._passthrough = passthrough
        _of_environments.add(self)

    def known(self) -> dict[str, str]:
        """Return the secrets by name: of this process, of the settings, and what is passed through."""
        passed = {name: value for name, value in self._passthrough.values().items() if not _is_harmless(name, value)}
        held = _of_settings(self._settings.own) | _of_settings(self._settings.own_over or BackendSettings())
        return {**secret_among(os.environ), **_of_program, **held, **passed}

    @staticmethod
    def of_all() -> dict[str, str]:
        """Return those of all environments of this process, for its logs."""
        found = {**secret_among(os.environ), **_of_program}
        for secrets in list(_of_environments):
            found |= secrets.known()
        return found


_of_environments: WeakSet[SecretValues] = WeakSet()
_of_program: dict[str, str] = {}


def keep_secret(name: str, value: str) -> None:
    """Have a value taken for a secret by all environments of this process, which is in none of its variables.

    Args:
        name: What stands in its place.
        value: The secret.
    """
    _of_program[name] = value


def _is_harmless(name: str, value: str) -> bool:
    """Whether what is passed through is no secret: HOME and the like, or a path in a variable that sounds like none."""
    return name in SAFE_NAMES or (value.startswith(("/", "~/")) and not names_secret(name, value))


def secret_among(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are secret by their name, and the passwords in URLs of others."""
    found = {}
    for name, value in variables.items():
        if names_secret(name, value):
            found[name] = value
        if "://" in value and (password := re.search(_URL_WITH_USER, value)):
            found[f"{name}_PASSWORD" if name in found else name] = password[1]
    return found


def _of_settings(own: BackendSettings) -> dict[str, str]:
    """Return the secrets that the settings of a backend hold."""
    found = secret_among(own.target_variables())
    for field in fields(own):
        if reveal := getattr(getattr(own, field.name), "get_secret_value", None):
            found[f"TERMINAL_{own.prefix}{field.name}".upper()] = reveal()
    return found

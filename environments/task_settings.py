"""Settings that somebody gave for the environment of one task, and how they compare with those it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from environments.base import BaseEnvironment
from environments.errors import SettingsError
from environments.factory import create_environment
from environments.settings import EnvironmentSettings
from environments.sources import load_settings, with_full_names

_HOOKS = frozenset(create_environment.__kwdefaults__ or ())
"""What `create_environment` takes beside settings, such as `approve`."""


class TaskSettings:
    """The arguments of `create_environment`, by name, where `backend` or `env` names the backend.

    Args:
        given: The arguments; None means not set.

    Raises:
        SettingsError: What names the backend is no text.
    """

    def __init__(self, given: Mapping[str, object]) -> None:
        found = {name: value for name, value in given.items() if value is not None}
        self._hooks = {name: found.pop(name) for name in _HOOKS & found.keys()}
        backend = found.pop("backend") if "backend" in found else found.pop("env", None)
        if backend is not None and not isinstance(backend, str):
            raise SettingsError(f"backend: it should be the name of a backend, and is a {type(backend).__name__}")
        self._backend = backend
        self._settings = found

    def arguments(self) -> dict[str, Any]:
        """Return them for `create_environment`."""
        backend = {} if self._backend is None else {"backend": self._backend}
        return {**backend, **self._settings, **self._hooks}

    @property
    def hooks(self) -> Mapping[str, Any]:
        """Those that are no settings, such as `approve`."""
        return self._hooks

    def loaded(self) -> EnvironmentSettings:
        """Return all settings, with those of `config.yaml` and of variables. Raises as `load_settings` does."""
        return load_settings(self._backend, **self._settings)

    def over(self, others: TaskSettings) -> dict[str, Any]:
        """Return the arguments for `create_environment` that these are together with others, over them.

        Raises:
            SettingsError: A setting is given under two names, or the backend is unknown.
        """
        backend = others._backend if self._backend is None else self._backend
        under = with_full_names(backend if others._backend is None else others._backend, others._settings)
        settings = {**under, **with_full_names(backend, self._settings)}
        return TaskSettings({**settings, **others._hooks, **self._hooks, "backend": backend}).arguments()

    def differing(self, env: BaseEnvironment) -> list[str]:
        """Return the names of those that an environment does not have.

        Raises:
            SettingsError: One of them is not in order.
        """
        if not self.arguments():
            return []
        had = env.settings
        if self._backend not in (None, had.env):
            return ["backend"]
        names = with_full_names(had.env, self._settings)
        wanted = load_settings(had.env, **names)
        other = [name for name in names if _value(wanted, name) != _value(had, name)]
        return other + [name for name, hook in self._hooks.items() if getattr(env, name, None) != hook]


def _value(settings: EnvironmentSettings, name: str) -> object:
    """Return a setting by its full name; None for one of another backend."""
    own = settings.own
    if name.startswith(own.prefix) and hasattr(own, short := name.removeprefix(own.prefix)):
        return getattr(own, short)
    return getattr(settings, name) if name in settings.__dataclass_fields__ else None

"""Registry of backends: names and classes.

A name is looked up in this package's table, then among the entry points of the group `hermes_environments.backends`,
then as a dotted path `package.module:Class`. The backend's module is imported on first use.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from environments.base import BaseEnvironment
from environments.errors import MissingExtraError, SettingsError
from environments.settings import BackendSettings
from environments.validation import closest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "hermes_environments.backends"


class BuiltIn(NamedTuple):
    """Import path of a backend of this package."""

    wing: str
    """Package that exports both classes. The settings class imports no client library."""
    environment: str
    settings: str


BUILT_IN: Mapping[str, BuiltIn] = {
    "local": BuiltIn("environments.local", "LocalEnvironment", "LocalSettings"),
    "bubblewrap": BuiltIn("environments.bubblewrap", "BubblewrapEnvironment", "BubblewrapSettings"),
    "ssh": BuiltIn("environments.ssh", "SSHEnvironment", "SSHSettings"),
    "docker": BuiltIn("environments.docker", "DockerEnvironment", "DockerSettings"),
    "singularity": BuiltIn("environments.singularity", "SingularityEnvironment", "SingularitySettings"),
    "modal": BuiltIn("environments.modal", "ModalEnvironment", "ModalSettings"),
    "daytona": BuiltIn("environments.daytona", "DaytonaEnvironment", "DaytonaSettings"),
}


def backend_names() -> list[str]:
    """Return the names of all usable backends: those of this package, then those of entry points."""
    return [*BUILT_IN, *(name for name in sorted(_entry_points()) if name not in BUILT_IN)]


def check_backend_name(name: str, where: str) -> None:
    """Check that a name can lead to a backend, without importing the backend.

    Args:
        name: The name, or a dotted path.
        where: Source of the name; the first words of the error.

    Raises:
        SettingsError: No backend has this name.
    """
    if name in BUILT_IN or _is_dotted(name) or name in _entry_points():
        return
    names = backend_names()
    raise SettingsError(
        f"{where}: unknown backend {name!r}{closest(name, names)}; "
        f"allowed: {', '.join(names)}, or a class as 'package.module:Class'"
    )


def backend_class(name: str) -> type[BaseEnvironment]:
    """Import a backend.

    Args:
        name: A name of `backend_names()`, or a class as `package.module:Class`.

    Returns:
        The environment class.

    Raises:
        SettingsError: No backend has this name, or the name leads to no environment class.
        MissingExtraError: The client library is not installed.
    """
    check_backend_name(name, "backend")
    if built_in := BUILT_IN.get(name):
        return _as_backend(name, getattr(importlib.import_module(built_in.wing), built_in.environment))
    from pkgutil import resolve_name

    entry = None if _is_dotted(name) else _entry_points()[name]
    try:
        return _as_backend(name, entry.load() if entry else resolve_name(name))
    except MissingExtraError:
        raise
    except (ImportError, AttributeError) as error:
        raise SettingsError(
            f"backend {name!r} cannot be imported from {entry.value if entry else name}: {error}"
        ) from error


def backend_settings_class(name: str) -> type[BackendSettings]:
    """Return the settings class of a backend. For a backend of this package, no client library is imported.

    Raises the errors of `backend_class`.
    """
    if built_in := BUILT_IN.get(name):
        found: type[BackendSettings] = getattr(importlib.import_module(built_in.wing), built_in.settings)
        return found
    return backend_class(name).settings_class


def _is_dotted(name: str) -> bool:
    module, _, class_name = name.partition(":")
    return class_name.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _entry_points() -> dict[str, EntryPoint]:
    # Imported late: takes 20 ms, and the backends of this package do not need entry points.
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def _as_backend(name: str, found: object) -> type[BaseEnvironment]:
    if isinstance(found, type) and issubclass(found, BaseEnvironment):
        return found
    raise SettingsError(f"backend {name!r} leads to {found!r}, which is not a subclass of BaseEnvironment")

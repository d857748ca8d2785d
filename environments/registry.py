"""Names of backends, the class behind each, and the one factory that builds every environment.

A backend is found in the table of this package, then among the entry points of the group
`hermes_environments.backends`, then as a dotted path `package.module:Class`. Its module is imported only
when the backend is used.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from environments.base import BaseEnvironment, MissingExtraError, SettingsError
from environments.config import closest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "hermes_environments.backends"


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """Where a backend of this package is, and what it needs."""

    module: str
    class_name: str
    extra: str | None = None
    """The pip extra that brings its client library; None when it needs none."""
    sdk: str | None = None
    """The name that client library is imported under."""


BUILT_IN: Mapping[str, BuiltIn] = {
    "local": BuiltIn("environments.local", "LocalEnvironment"),
    "ssh": BuiltIn("environments.ssh", "SSHEnvironment", extra="ssh", sdk="paramiko"),
    "docker": BuiltIn("environments.docker", "DockerEnvironment", extra="docker", sdk="docker"),
    "singularity": BuiltIn("environments.singularity", "SingularityEnvironment", extra="singularity", sdk="spython"),
    "modal": BuiltIn("environments.modal", "ModalEnvironment", extra="modal", sdk="modal"),
    "daytona": BuiltIn("environments.daytona", "DaytonaEnvironment", extra="daytona", sdk="daytona"),
}


def backend_names() -> list[str]:
    """Return the names of all backends that can be used here: those of this package, then installed ones."""
    return [*BUILT_IN, *(name for name in sorted(_entry_points()) if name not in BUILT_IN)]


def is_third_party(name: str) -> bool:
    """Whether a backend is not of this package, and so has its settings in `EnvironmentSettings.options`."""
    return name not in BUILT_IN


def check_backend_name(name: str, where: str) -> None:
    """Check that a name could lead to a backend, without importing it.

    Args:
        name: The name, which may be a dotted path.
        where: The source of the name, which begins the error.

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

    Raises:
        SettingsError: No backend has this name, or what it leads to is not a backend.
        MissingExtraError: Its client library is not installed.
    """
    check_backend_name(name, "backend")
    built_in = BUILT_IN.get(name)
    if built_in is not None:
        return _import_built_in(name, built_in)
    entry_point = None if _is_dotted(name) else _entry_points()[name]
    target = name if entry_point is None else entry_point.value
    try:
        found: object = entry_point.load() if entry_point else _import_dotted(name)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"backend {name!r} cannot be imported from {target}: {error}") from error
    return _as_backend(name, found)


def create_environment(backend: str | None = None, **settings: object) -> BaseEnvironment:
    """Build an environment from `config.yaml`, over it `TERMINAL_*` variables, over both these arguments.

    Nothing is started yet: an environment starts on first use.

    Args:
        backend: A name of `backend_names()`, or a class as `package.module:Class`; None takes the configured
            one, which is `local` by default.
        settings: Any field of `EnvironmentSettings`. The backend's own prefix may be left out: beside
            `"docker"`, `image="x"` is `docker_image`.

    Raises:
        SettingsError: A setting or the backend is unknown, or a value is not allowed.
        MissingExtraError: The backend's client library is not installed.
    """
    # settings.py asks this module which backends there are, so it cannot be imported above.
    from environments.settings import load_settings

    loaded = load_settings(backend, **settings)
    return backend_class(loaded.env)(loaded)


def _is_dotted(name: str) -> bool:
    module, _, class_name = name.partition(":")
    return class_name.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _entry_points() -> dict[str, EntryPoint]:
    # Imported here because it costs 20 ms, and the backends of this package never need it.
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def _import_built_in(name: str, backend: BuiltIn) -> type[BaseEnvironment]:
    try:
        module = importlib.import_module(backend.module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if backend.sdk is None or missing != backend.sdk.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"backend {name!r} needs the {missing} package: pip install 'hermes-environments[{backend.extra}]'"
        ) from error
    return _as_backend(name, getattr(module, backend.class_name))


def _import_dotted(path: str) -> object:
    module, _, class_name = path.partition(":")
    found: object = getattr(importlib.import_module(module), class_name)
    return found


def _as_backend(name: str, found: object) -> type[BaseEnvironment]:
    if isinstance(found, type) and issubclass(found, BaseEnvironment):
        return found
    raise SettingsError(f"backend {name!r} leads to {found!r}, which is not a subclass of BaseEnvironment")

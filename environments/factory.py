"""The one function that builds every environment."""

from __future__ import annotations

from environments.base import BaseEnvironment
from environments.registry import backend_class
from environments.sources import load_settings


def create_environment(backend: str | None = None, **settings: object) -> BaseEnvironment:
    """Build an environment from `config.yaml`, over it `TERMINAL_*` variables, over both these arguments.

    Nothing is started yet: an environment starts on first use.

    Args:
        backend: A name of `backend_names()`, or a class as `package.module:Class`; None takes the configured
            one, which is `local` by default.
        settings: Any field of `EnvironmentSettings` or of the backend's own settings. The backend's own prefix may be
            left out: beside `"docker"`, `image="x"` is `docker_image`.

    Raises:
        SettingsError: A setting or the backend is unknown, or a value is not allowed.
        UnsupportedError: The backend cannot do what a setting asks for.
        MissingExtraError: The backend's client library is not installed.
    """
    loaded = load_settings(backend, **settings)
    return backend_class(loaded.env)(loaded)

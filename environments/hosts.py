"""The machine that a backend's engine is on, where that is not this one, as an environment of its own."""

from __future__ import annotations

from dataclasses import replace

from environments.base import BaseEnvironment
from environments.registry import backend_class
from environments.settings import EnvironmentSettings
from environments.sources import load_settings


def host_over(settings: EnvironmentSettings) -> BaseEnvironment | None:
    """Return an environment on the machine that `over` leads to, which is not started; None without `over`.

    Raises:
        MissingExtraError: The client library of that backend is not installed.
    """
    if settings.over is None or settings.own_over is None:
        return None
    return _host(EnvironmentSettings(env=settings.over, task_id=settings.task_id, own=settings.own_over))


def host_at(url: str) -> BaseEnvironment:
    """Return an environment on the machine of a URL such as `ssh://user@host:22`, which is not started.

    Args:
        url: Begins with the name of the backend. Its other settings, such as the key, are those that are configured.

    Raises:
        SettingsError: The URL cannot be understood, or no backend leads there.
        MissingExtraError: The client library of that backend is not installed.
    """
    found = load_settings(url.partition("://")[0])
    return _host(replace(EnvironmentSettings(), env=found.env, own=found.own.at(url)))


def _host(settings: EnvironmentSettings) -> BaseEnvironment:
    return backend_class(settings.env).create(settings)

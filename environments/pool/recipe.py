"""How each environment of a pool is made."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from environments.base import BaseEnvironment
from environments.factory import environment_of
from environments.registry import backend_class
from environments.settings import EnvironmentSettings
from environments.tasks import TaskSettings


class Recipe:
    """Makes the environments of one pool, which differ in their `task_id` alone.

    Args:
        settings: As for `Pool`.

    Raises:
        SettingsError: They are not in order.
        MissingExtraError: The backend's client library is not installed.
    """

    def __init__(self, settings: str | EnvironmentSettings | Mapping[str, object] | None) -> None:
        self._hooks: Mapping[str, Any] = {}
        if isinstance(settings, EnvironmentSettings):
            self.settings = settings
        else:
            given = settings if isinstance(settings, Mapping) else {"backend": settings}
            asked = TaskSettings(given)
            self.settings, self._hooks = asked.loaded(), asked.hooks
        self.backend: type[BaseEnvironment] = backend_class(self.settings.env)
        self._name = f"{self.settings.task_id}-{secrets.token_hex(3)}"
        self._numbers = itertools.count(1)

    def make(self) -> BaseEnvironment:
        """Make one. Nothing of it is started yet."""
        task = f"{self._name}-{next(self._numbers)}"
        return environment_of(replace(self.settings, task_id=task), **self._hooks)

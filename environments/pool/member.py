"""One environment of a pool, and how each is made."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from environments.base import BaseEnvironment
from environments.factory import environment_of
from environments.registry import backend_class
from environments.settings import EnvironmentSettings
from environments.task_settings import TaskSettings


@dataclass(eq=False, slots=True)
class Member:
    """An environment of a pool."""

    env: BaseEnvironment
    uses: int = 0
    """How many borrowers have had it."""
    idle_since: float = field(default_factory=time.monotonic)
    """When it was last ready for a borrower, on the monotonic clock."""


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

    def make(self) -> Member:
        """Make one. Nothing of it is started yet."""
        task = f"{self._name}-{next(self._numbers)}"
        return Member(environment_of(replace(self.settings, task_id=task), **self._hooks))

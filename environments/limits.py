"""Resource settings, and refusing those that a backend cannot enforce."""

from __future__ import annotations

from environments.base import UnsupportedError
from environments.settings import EnvironmentSettings

RESOURCE_SETTINGS = ("container_cpu", "container_memory", "container_disk", "container_pids")


def refuse_unenforced(settings: EnvironmentSettings, enforced: frozenset[str]) -> None:
    """Refuse resource settings that would have no effect.

    Raises:
        UnsupportedError: One is set that is not among `enforced`. It names the setting.
    """
    for name in RESOURCE_SETTINGS:
        if getattr(settings, name) is not None and name not in enforced:
            raise UnsupportedError(
                f"backend {settings.env!r} cannot enforce {name}; leave {name} (TERMINAL_{name.upper()}) unset, or use "
                "a backend that can"
            )

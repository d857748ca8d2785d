"""Targets that run already and are somebody else's: which settings say nothing of them."""

from __future__ import annotations

from collections.abc import Iterable

from environments.errors import SettingsError, UnsupportedError
from environments.settings import RESOURCE_SETTINGS, EnvironmentSettings


def of_new_targets(prefix: str, names: Iterable[str]) -> frozenset[str]:
    """Return the full names of all settings that say what a new target is to be.

    Args:
        prefix: That of the backend.
        names: Names of its own among them, without the prefix.
    """
    return frozenset({*(prefix + name for name in names), *RESOURCE_SETTINGS, "container_persistent"})


def refuse_beside(settings: EnvironmentSettings, joined: str, names: Iterable[str]) -> None:
    """Refuse settings that say what a new target is to be, where there is one that runs already.

    Args:
        settings: All settings.
        joined: The setting that names the target.
        names: Names of the backend's own settings that are for new targets alone, without its prefix.

    Raises:
        UnsupportedError: A limit is set.
        SettingsError: Another one of them is set.
    """
    limits = [name for name in RESOURCE_SETTINGS if getattr(settings, name)]
    if limits:
        raise UnsupportedError(
            f"backend {settings.env!r} cannot enforce {', '.join(limits)} in a target that runs already, whose limits "
            f"are its own; unset {'it' if len(limits) == 1 else 'them'}, or {joined}"
        )
    own = settings.own
    usual = type(own)()
    given = [f"{own.prefix}{name}" for name in names if getattr(own, name) != getattr(usual, name)]
    given += ["container_persistent"] if settings.container_persistent else []
    if given:
        are, them = ("is", "it") if len(given) == 1 else ("are", "them")
        raise SettingsError(
            f"{joined} names a target that runs already, and {', '.join(given)} {are} for a new one; unset {them}, or "
            f"{joined}"
        )

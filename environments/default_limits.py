"""The limits that the older system's `config.yaml` has when nobody chose any: held where they can be, and no error."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from environments.errors import UnsupportedError
from environments.sections import warn_once
from environments.settings import RESOURCE_SETTINGS, EnvironmentSettings


class UnheldLimitsError(UnsupportedError):
    """A target cannot hold limits that it was asked for.

    Args:
        message: What to do about it.
        names: Names of the limits.
        why: Why it cannot.
    """

    def __init__(self, message: str, names: Collection[str] = (), why: str = "") -> None:
        super().__init__(message)
        self.names = frozenset(names)
        self.why = why


def told_apart(settings: EnvironmentSettings, chosen: Collection[str]) -> EnvironmentSettings:
    """Return settings that say which limits are such defaults, without those that the backend never holds.

    Args:
        settings: What was loaded.
        chosen: Names of the settings that an argument gave, which somebody did choose.
    """
    if not any(getattr(settings, name) for name in RESOURCE_SETTINGS):
        return settings
    from environments.legacy import DEFAULT_LIMITS  # with its whole table, which a run on the defaults does without

    defaults = {
        name for name, value in DEFAULT_LIMITS.items() if getattr(settings, name) == value and name not in chosen
    }
    if not defaults:
        return settings
    settings = replace(settings, default_limits=frozenset(defaults))
    return without(settings, settings.own.unheld(settings), "that is not to be had there")


def going_without(settings: EnvironmentSettings, error: UnheldLimitsError) -> EnvironmentSettings:
    """Return settings without the limits that could not be held, as far as nobody chose them.

    Raises `error` if all were chosen.
    """
    if not settings.default_limits & error.names:
        raise error
    return without(settings, error.names, error.why)


def without(settings: EnvironmentSettings, unheld: Collection[str], why: str) -> EnvironmentSettings:
    """Return settings without those limits that are defaults and cannot be held, of which a warning tells.

    Args:
        settings: All settings.
        unheld: Names of the limits that cannot be held.
        why: Why they cannot.
    """
    from environments.legacy import DEFAULT_LIMITS

    names = [name for name in DEFAULT_LIMITS if name in settings.default_limits and name in unheld]
    if not names:
        return settings
    each = "it is" if len(names) == 1 else "each is"
    warn_once(
        f"limits {settings.env} {names}",
        f"backend {settings.env!r} does not enforce {', '.join(names)}: {why}. As {each} what hermes-agent sets by "
        "default, it is passed over; another value is refused, and 0 is no limit and no warning",
    )
    unset: dict[str, Any] = dict.fromkeys(names)
    return replace(settings, default_limits=settings.default_limits.difference(names), **unset)

"""Where what is done tells of itself: to nobody, to a record, to OpenTelemetry."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from environments.observation.observation import (
    CURRENT,
    NO_FACTS,
    UNOBSERVED,
    Facts,
    Kind,
    Observation,
    Observer,
)

if TYPE_CHECKING:
    from environments.observation.watched import Watched


_TRACE = "opentelemetry.trace"


def observed(
    kind: Kind,
    name: str,
    facts: Callable[[], Facts] = lambda: NO_FACTS,
    place: Watched | None = None,
    *observers: Observer,
) -> Observation:
    """Return what tells of one thing that is about to begin.

    Args:
        kind: What kind of thing it is.
        name: What people call it.
        facts: Tells what is known of it, if anybody looks on.
        place: The environment that it is done in.
        observers: Who looks on, beside those who look at what it is done for, and OpenTelemetry where it is in use.
    """
    outer = CURRENT.get()
    if outer is UNOBSERVED:
        return UNOBSERVED
    if outer is not None or len(observers) > 1:
        observers = tuple(dict.fromkeys((*(outer.observers if outer else ()), *observers)))
    if _TRACE in sys.modules and (telemetry := _telemetry()) and telemetry not in observers:
        observers = (*observers, telemetry)
    return Observation(kind, name, facts, place, observers, outer) if observers else UNOBSERVED


def current_observation() -> Observation:
    """Return what the current thread is at."""
    return CURRENT.get() or UNOBSERVED


def _telemetry() -> Observer | None:
    """Return OpenTelemetry, if a program has set it up and not only imported it."""
    try:
        from environments.observation.telemetry import telemetry

        return telemetry if telemetry.is_wanted() else None
    except Exception:  # such as while another thread imports it
        return None

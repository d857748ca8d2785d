"""The class of a wing, imported when it is first used, as it needs a client library."""

from __future__ import annotations

import importlib
from collections.abc import Callable


def handing_on(wing: str, environment: str, extra: str | None = None) -> Callable[[str], object]:
    """Return the `__getattr__` of a wing's package, which hands on the class of its module `environment`.

    Args:
        wing: The package's name.
        environment: The name of the class.
        extra: The pip extra that brings what the class needs; None when it needs none.
    """

    def hand_on(name: str) -> object:
        if name != environment:
            raise AttributeError(f"module {wing!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(f"{wing}.environment"), name)
        except ImportError as error:
            missing = (error.name or "").partition(".")[0]
            if extra is None or missing in ("", wing.partition(".")[0]):
                raise
            from environments.extras import missing_library  # where one is missing

            raise missing_library(f"backend {extra!r}", missing, extra) from error

    return hand_on

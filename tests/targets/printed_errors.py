"""Checks the traceback that Python prints for an uncaught error."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from environments import TerminalError

SCREEN = 40
"""Lines of a terminal."""
CHAINS = ("During handling of the above exception", "direct cause of the following exception")


def refusal(act: Callable[[], object]) -> str:
    """Return the message of a `TerminalError`. Its traceback has no chained error, and fits on a screen."""
    with pytest.raises(TerminalError) as raised:
        act()
    printed = "".join(traceback.format_exception(raised.value))
    assert [chain for chain in CHAINS if chain in printed] == [], printed
    assert len(printed.splitlines()) <= SCREEN, printed
    return str(raised.value)

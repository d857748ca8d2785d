"""What Python prints for an error that a program does not catch."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from environments import TerminalError

SCREEN = 40
"""Lines that a terminal shows at once."""
CHAINS = ("During handling of the above exception", "direct cause of the following exception")


def refusal(act: Callable[[], object]) -> str:
    """Return the message of an error whose printed traceback is that error alone, on one screen."""
    with pytest.raises(TerminalError) as raised:
        act()
    printed = "".join(traceback.format_exception(raised.value))
    assert [chain for chain in CHAINS if chain in printed] == [], printed
    assert len(printed.splitlines()) <= SCREEN, printed
    return str(raised.value)

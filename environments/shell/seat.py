"""Where the shells of one session are."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from environments.shell.stream import Terminal


class Seat(NamedTuple):
    """What tells the shells of one session from those of others; the default one has nothing of the kind."""

    word: str = ""
    """What the number of each begins with in its marker."""
    terminal: Terminal | None = None
    """The size of the terminal that they are on; None is pipes."""
    new_script: Callable[[], str] = str
    """Returns a path for the pipe by which one on a terminal gets its script."""

"""Which variables of this process the session has been given, and which it still has to get."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from environments.shell.state import SessionState


class Handover:
    """Gives the session each variable once: what it then does with one, unset it or change it, is its own business.

    A variable counts as given for good when a shell has reported what it holds behind the request that it came with,
    as that is what the next shell goes on from.

    Args:
        variables: Return all that the session is to have, as of now.
    """

    def __init__(self, variables: Callable[[], Mapping[str, str]]) -> None:
        self._variables = variables
        self._given: dict[str, int] = {}
        self._offered: dict[str, int] = {}

    @property
    def given(self) -> Collection[str]:
        """The names of those that it has."""
        return self._given.keys()

    def due(self) -> dict[str, str]:
        """Return what is to go along with the next request."""
        return {name: value for name, value in self._variables().items() if name not in self._given}

    def due_with(self, state: SessionState) -> dict[str, str]:
        """Return what a new shell is to begin with, which goes on from a state."""
        known = self._given if state.reported else {}
        due = {name: value for name, value in self._variables().items() if name not in known}
        self._offered = {**dict.fromkeys(known, 0), **dict.fromkeys(due, 1)}
        return due

    def opened(self) -> None:
        """Note that a shell has begun with all that was due."""
        self._given = self._offered

    def sent(self, names: Mapping[str, str], number: int) -> None:
        """Note that variables went along with a request of this number."""
        self._given |= dict.fromkeys(names, number)

    def ended(self, reported: int) -> None:
        """Note that the shell has ended, and that its last report was that behind a request of this number."""
        self._given = {name: 0 for name, number in self._given.items() if number <= reported}

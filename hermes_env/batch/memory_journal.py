"""The results of a batch that is given no file: they are kept, and go with this process."""

from __future__ import annotations

from collections.abc import Collection

from hermes_env.batch.result import Result, Status


class MemoryJournal:
    """What `Journal` is, without files.

    Args:
        keeps: Whether the results are kept. Otherwise they are only told of.
    """

    def __init__(self, *, keeps: bool = True) -> None:
        self._keeps = keeps
        self.results: list[Result] = []
        """The results."""
        self.done: dict[str, Status] = {}
        """No task had one before."""
        self.follows_a_kill = False
        """There was no run before."""

    def resume(self, retry: Collection[Status], among: Collection[str] | None = None) -> None:
        """There is nothing to go on with."""

    def begin(self, names: Collection[str]) -> None:
        """Nothing has to be noted."""

    def withdraw(self, names: Collection[str]) -> None:
        """Nothing was noted."""

    def add(self, results: Collection[Result]) -> None:
        """Keep results."""
        if self._keeps:
            self.results += results

    def close(self) -> None:
        """There is nothing to close."""

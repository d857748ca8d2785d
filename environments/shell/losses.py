"""Who has been told of a target's loss: at least somebody has to be."""

from __future__ import annotations

import weakref

from environments.errors import EnvironmentLostError


class Losses:
    """The errors that are raised of the last loss, and which of them reach whoever uses the environment.

    It has no lock of its own.

    Args:
        backend: The backend's name, for errors.
        target_stays: Whether a loss is only that of a link to the same target as before.
    """

    def __init__(self, backend: str, *, target_stays: bool) -> None:
        self._backend = backend
        self._target_stays = target_stays
        self._raised: weakref.WeakSet[EnvironmentLostError] = weakref.WeakSet()
        self._told = 0
        self._postponed = ""
        """What those say that were raised where nobody can be told."""

    def begin(self) -> None:
        """Note that there is another loss."""
        self._raised, self._told, self._postponed = weakref.WeakSet(), 0, ""

    def error(self, why: str) -> EnvironmentLostError:
        """Return the error that says why a target was lost."""
        return EnvironmentLostError(
            f"backend {self._backend!r} was lost: {why}. What the command had done by then is done, and it was "
            "not run again; the next command connects anew"
        )

    def noted(self, error: EnvironmentLostError) -> EnvironmentLostError:
        """Return an error that is about to be raised of the last loss."""
        self._raised.add(error)
        self._told += 1
        return error

    def postpone(self, error: Exception) -> None:
        """Note that an error was raised where nobody can be told. Where the target stays, nobody needs to be."""
        if error in self._raised and not self._target_stays:
            self._told -= 1
            self._postponed = str(error)

    def told(self, error: Exception) -> None:
        """Note that an error which was postponed is raised after all, to somebody who had asked."""
        if error in self._raised:
            self._told += 1

    def raise_postponed(self) -> None:
        """Raise EnvironmentLostError if there was a loss of which nobody has been told."""
        if self._postponed and not self._told:
            raise self.noted(EnvironmentLostError(self._postponed))

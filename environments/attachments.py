"""What layers above keep with an environment, so that it goes when the environment goes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar


class Attachment(Protocol):
    """Something that is kept with one environment."""

    def close(self) -> None:
        """Give up what is kept. The environment has been cleaned up. Called once."""


_Kept = TypeVar("_Kept", bound=Attachment)


class Attachments:
    """Those of one environment, one of each kind. They refer to each other as they like: nothing else holds them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_kind: dict[object, Attachment] = {}
        self._closed = False

    def get(self, kind: Callable[[], _Kept]) -> _Kept:
        """Return the one of a kind, made when it is first asked for; one that is closed already after `close`."""
        with self._lock:
            found = self._of_kind.get(kind)
            if found is None:
                found = kind()
                if self._closed:
                    found.close()
                else:
                    self._of_kind[kind] = found
            return found  # type: ignore[return-value]  # one kind has attachments of its own type

    def close(self) -> None:
        """Close all of them, and keep none from now on."""
        self._closed = True
        self.renew()

    def renew(self) -> None:
        """Close all of them, so that each is made anew when it is asked for."""
        with self._lock:
            kept, self._of_kind = list(self._of_kind.values()), {}
        for each in kept:
            each.close()

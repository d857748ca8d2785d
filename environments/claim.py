"""An exclusive claim on a name, which ends with the process that holds it, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from environments.config import hermes_home

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "claims"


class Claim:
    """A locked file under `HERMES_HOME`. The kernel frees the lock when its holder dies, also of KILL.

    Args:
        name: What is claimed; a file name.
        home: The `HERMES_HOME` it is among; None is that of this process.
    """

    def __init__(self, name: str, home: Path | None = None) -> None:
        self._path: Path = (home or hermes_home()) / FOLDER / name
        self._descriptor = -1

    def take(self) -> bool:
        """Take the claim if nobody else has it, and return whether we have it now."""
        if self._descriptor >= 0:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return False
            if self._is_ours(descriptor):
                self._descriptor = descriptor
                return True
            os.close(descriptor)  # its last holder removed it between our opening and our locking it

    @property
    def is_held(self) -> bool:
        """Whether anybody has it. To look disturbs nobody who takes it meanwhile, but where its holder was killed."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _is_ours(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give the claim up. Without one, does nothing."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = -1

"""Snapshots that a user takes, and those beneath forks.

A snapshot is an image of Modal, which other machines can use by its id. Modal does not list images, so that ours are
noted under this `HERMES_HOME`: those of users by their names, those of forks by the process that they are for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import modal
from modal import exception

from environments.errors import TerminalError
from environments.local_files import replace_file
from environments.modal.service import connect, service
from environments.owner import Owner
from environments.settings import hermes_home

NAMED, FORK = "named-", "fork-"
_FOLDER = "modal-snapshots"


class Snapshot:
    """The note of one snapshot.

    Args:
        key: The name of the note: a prefix, and the snapshot's name, or the mark of its process and its image.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self._path: Path = hermes_home() / _FOLDER / key

    @classmethod
    def named(cls, name: str) -> Snapshot:
        """Return the note of a user's snapshot."""
        return cls(f"{NAMED}{name}")

    @classmethod
    def of_fork(cls, image: str) -> Snapshot:
        """Return the note of the snapshot beneath a fork of this process."""
        return cls(f"{FORK}{Owner.this_process().mark}-{image}")

    @property
    def name(self) -> str:
        """The name that a user has given; empty for that of a fork."""
        return self.key.removeprefix(NAMED) if self.key.startswith(NAMED) else ""

    @property
    def owner_mark(self) -> str:
        """Text that begins with the mark of the process that it is for; empty for a user's."""
        return self.key.removeprefix(FORK) if self.key.startswith(FORK) else ""

    @property
    def image(self) -> str | None:
        """The id of the image; None if nothing is noted."""
        return self._noted()[0] or None

    @property
    def task(self) -> str:
        """The task of the environment that it was taken of, in the letters that a label may have."""
        return self._noted()[1]

    @property
    def created(self) -> float:
        """When it was taken, in seconds since the epoch."""
        return self._path.stat().st_mtime

    def note(self, image: str, task: str) -> None:
        """Note an image.

        Raises:
            TerminalError: It cannot be noted.
        """
        try:
            replace_file(self._path, lambda file: file.write(f"{image}\n{task}\n".encode()), 0o600)
        except OSError as error:
            raise TerminalError(f"cannot note what was kept: {error}") from error

    def forget(self) -> None:
        """Remove the note."""
        self._path.unlink(missing_ok=True)

    def _noted(self) -> tuple[str, str]:
        try:
            image, task, *_ = [*self._path.read_text().splitlines(), "", ""]
        except FileNotFoundError:
            return "", ""
        return image.strip(), task.strip()


def all_snapshots() -> Iterator[Snapshot]:
    """Go through the notes of this `HERMES_HOME`."""
    folder = hermes_home() / _FOLDER
    if folder.is_dir():
        yield from (Snapshot(path.name) for path in sorted(folder.iterdir()))


async def delete_image(image: str) -> None:
    """Delete an image, if it is there.

    Raises:
        EnvironmentStartError: The service refused, or could not be reached.
    """
    from modal.experimental import image_delete  # which the client says may be somewhere else in a later version

    client: modal.Client = await connect()
    with service.reported(f"snapshot {image} cannot be deleted"), contextlib.suppress(exception.NotFoundError):
        await image_delete.aio(image, client=client)

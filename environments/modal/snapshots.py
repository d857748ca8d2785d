"""Snapshots: of a task's kept files, of a user, and of forks.

A snapshot is an image of Modal; other machines can use its id. Modal cannot list images, so each of ours has a note in
this `HERMES_HOME`: under the key of a task's files, under a user's name, or under the process of a fork.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import modal
from modal import exception

from environments.claim import Claim
from environments.errors import TerminalError
from environments.local_files import replace_file
from environments.modal.service import connect, service
from environments.modal.settings import SNAPSHOT_FOLDER
from environments.owner import UNKNOWN, Owner
from environments.settings import hermes_home
from environments.short_commands.sandbox import claim_name

_NAMED, _FORK = "named-", "fork-"
_KEY = re.compile("[0-9a-f]{32}")


class Snapshot:
    """The note of one snapshot.

    Args:
        key: The name of the note: the key of a task's kept files, or a result of `named` or `of_fork`.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self._path: Path = hermes_home() / SNAPSHOT_FOLDER / key

    @classmethod
    def named(cls, name: str) -> Snapshot:
        """Return the note of a user's snapshot."""
        return cls(f"{_NAMED}{name}")

    @classmethod
    def of_fork(cls, image: str) -> Snapshot:
        """Return the note of the snapshot below a fork of this process."""
        return cls(f"{_FORK}{Owner.this_process().mark}-{image}")

    @property
    def name(self) -> str:
        """The user's name for the snapshot, or else the name of the note."""
        return self.key.removeprefix(_NAMED)

    @property
    def owner(self) -> Owner | None:
        """The process of the fork; None if the snapshot outlives its process."""
        return (Owner.in_name(self.key.removeprefix(_FORK)) or UNKNOWN) if self.key.startswith(_FORK) else None

    @property
    def claim(self) -> Claim | None:
        """The claim on a task's kept files; None for other snapshots."""
        return Claim(claim_name("modal", self.key)) if _KEY.fullmatch(self.key) else None

    @property
    def image(self) -> str | None:
        """The id of the image; None without a note."""
        return self._line(0) or None

    @property
    def task(self) -> str:
        """The task of the snapshot's environment, in the characters of a label."""
        return self._line(1)

    @property
    def created(self) -> float:
        """Time of the snapshot, in seconds since the epoch."""
        return self._path.stat().st_mtime

    def store(self, image: str, task: str) -> None:
        """Write the note of an image.

        Raises:
            TerminalError: The file cannot be written.
        """
        try:
            replace_file(self._path, lambda file: file.write(f"{image}\n{task}\n".encode()), 0o600)
        except OSError as error:
            raise TerminalError(f"backend 'modal': cannot write the note of a snapshot: {error}") from error

    def remove(self) -> None:
        """Remove the note."""
        self._path.unlink(missing_ok=True)

    def _line(self, number: int) -> str:
        with contextlib.suppress(FileNotFoundError, IndexError):
            return self._path.read_text().splitlines()[number].strip()
        return ""


def all_snapshots() -> Iterator[Snapshot]:
    """Yield the notes of this `HERMES_HOME`."""
    folder = hermes_home() / SNAPSHOT_FOLDER
    if folder.is_dir():
        yield from (Snapshot(path.name) for path in sorted(folder.iterdir()))


async def delete_image(image: str) -> None:
    """Delete an image, if it exists.

    Raises:
        EnvironmentStartError: The service refused, or could not be reached.
    """
    from modal.experimental import image_delete  # experimental: the client may move this function

    client: modal.Client = await connect()
    with service.start_errors(f"snapshot {image} cannot be deleted"), contextlib.suppress(exception.NotFoundError):
        await image_delete.aio(image, client=client)

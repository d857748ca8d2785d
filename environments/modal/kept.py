"""What outlives an environment of a task: a sandbox that its process left running, and the last snapshot of its files.

A sandbox is found by its tags. A snapshot has no name in Modal, so that its id is kept in a file under `HERMES_HOME`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from environments.claim import Claim
from environments.config import hermes_home
from environments.errors import TerminalError
from environments.local_files import replace_file
from environments.modal.settings import ModalSettings
from environments.settings import EnvironmentSettings
from environments.short_commands.sandbox import kept_key

_FOLDER = "modal-snapshots"
_KEY = re.compile("[0-9a-f]{32}")
_LIMITS = ("container_cpu", "container_memory")
_OWN = ("app", "image", "dockerfile_commands", "gpu", "region", "volumes", "network", "ports")


class Kept:
    """The files of one task, as one kind of sandbox sees them. They are in one sandbox at a time.

    Args:
        key: Names them, see `key_of`.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.claim_name = f"modal-{key}"
        self.claim = Claim(self.claim_name)
        self._path: Path = hermes_home() / _FOLDER / key

    def take(self) -> bool:
        """Claim the files, and return whether nobody else has them in use."""
        return self.claim.take()

    def release(self) -> None:
        """Let others have them."""
        self.claim.release()

    @property
    def is_taken(self) -> bool:
        """Whether anybody has them in use."""
        return self.claim.is_held

    @property
    def snapshot(self) -> str | None:
        """The id of the image that holds the files, if there is one."""
        return self._noted()[0] or None

    @property
    def task(self) -> str:
        """What the snapshot is for, as far as that is known, in the letters that a label may have."""
        return self._noted()[1]

    @property
    def noted(self) -> float:
        """When the snapshot was taken, in seconds since the epoch."""
        return self._path.stat().st_mtime

    def note(self, image: str, task: str) -> None:
        """Note that there is a snapshot.

        Args:
            image: Its id.
            task: What it is for.

        Raises:
            TerminalError: It cannot be noted.
        """
        try:
            replace_file(self._path, lambda file: file.write(f"{image}\n{task}\n".encode()), 0o600)
        except OSError as error:
            raise TerminalError(f"cannot note what was kept: {error}") from error

    def _noted(self) -> tuple[str, str]:
        try:
            image, task, *_ = [*self._path.read_text().splitlines(), "", ""]
        except FileNotFoundError:
            return "", ""
        return image.strip(), task.strip()

    def forget(self) -> None:
        """Forget a snapshot that there is no more."""
        self._path.unlink(missing_ok=True)


def all_kept() -> Iterator[Kept]:
    """Go through the snapshots of which this `HERMES_HOME` knows."""
    folder = hermes_home() / _FOLDER
    if folder.is_dir():
        yield from (Kept(path.name) for path in sorted(folder.iterdir()) if _KEY.fullmatch(path.name))


def key_of(settings: EnvironmentSettings) -> str:
    """Return the key of the kept files of a task, see `kept_key`."""
    own = ModalSettings.of(settings)
    parts: dict[str, object] = {name: getattr(settings, name) or None for name in _LIMITS}  # 0 is no limit
    parts |= {name: getattr(own, name) for name in _OWN}
    return kept_key(settings, parts)

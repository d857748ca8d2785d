"""What outlives an environment of a task: a sandbox that its process left running, and the last snapshot of its files.

A sandbox is found by its tags. A snapshot has no name in Modal, so that its id is kept in a file under `HERMES_HOME`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from environments.claim import Claim
from environments.config import hermes_home
from environments.errors import TerminalError
from environments.local_files import replace_file
from environments.modal.settings import ModalSettings
from environments.owner import Owner
from environments.settings import EnvironmentSettings

_FOLDER = "modal-snapshots"
_KEY = re.compile("[0-9a-f]{32}")
_GENERAL = ("task_id", "container_cpu", "container_memory")
_OWN = ("app", "image", "dockerfile_commands", "gpu", "region", "volumes", "network")


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
    """Return what the kept files of a task go by: this machine, this `HERMES_HOME`, and how the sandbox is made."""
    own = ModalSettings.of(settings)
    parts: dict[str, object] = {name: getattr(settings, name) or None for name in _GENERAL}  # 0 is no limit
    parts |= {f"{own.prefix}{name}": getattr(own, name) for name in _OWN}
    parts |= {"modal_ports": own.ports} if own.ports else {}
    parts |= {"host": Owner.this_process().host, "home": str(hermes_home().absolute())}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

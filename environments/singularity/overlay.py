"""Where what is written in the container goes: memory, a file of fixed size, or a place that outlives it."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from environments.claim import Claim
from environments.config import hermes_home
from environments.errors import EnvironmentStartError, SettingsError, UnsupportedError
from environments.removal import remove_tree
from environments.settings import EnvironmentSettings
from environments.singularity.client import Client
from environments.singularity.settings import SingularitySettings

SMALLEST_DISK = 64
"""MB below which the engine makes no file system."""
MEGABYTE = 1024 * 1024


class Overlay:
    """The writable layer of one instance.

    Args:
        client: Makes file systems.
        settings: Say which layer it is.
        image: What it lies over: what is kept for one image is of no use over another.

    Raises:
        EnvironmentStartError: Another environment has the kept files in use.
        SettingsError: The settings contradict each other, or what was kept.
        UnsupportedError: A disk limit cannot be had here.
    """

    def __init__(self, client: Client, settings: EnvironmentSettings, image: str) -> None:
        self._client = client
        self._settings = settings
        self._claim: Claim | None = None
        self._passing: Path | None = None
        try:
            self.options = self._chosen(image)
        except BaseException:
            self.release()
            raise

    def _chosen(self, image: str) -> list[str]:
        settings = self._settings
        if SingularitySettings.of(settings).read_only:
            if settings.container_persistent or settings.container_disk:
                raise SettingsError(
                    "singularity_read_only leaves nothing to keep or to limit; unset it, or container_persistent and "
                    "container_disk"
                )
            return []
        if settings.container_persistent:
            return self._mounted(self._kept(image))
        if settings.container_disk:
            self._passing = Path(tempfile.mkdtemp(prefix="hermes-overlay-"))
            return self._mounted(self._file_system(self._passing / "overlay.img"))
        return ["--writable-tmpfs"]

    @staticmethod
    def _mounted(path: Path) -> list[str]:
        """Leave /tmp to the overlay: it is else a file system of its own, neither kept nor limited."""
        return ["--overlay", str(path), "--no-mount", "tmp"]

    def _kept(self, image: str) -> Path:
        key = hashlib.sha256(f"{self._settings.task_id}\0{image}".encode()).hexdigest()[:24]
        self._claim = Claim(f"singularity-{key}")
        if not self._claim.take():
            raise EnvironmentStartError(
                f"backend 'singularity': the kept files of task {self._settings.task_id!r} are in use by another "
                "environment; give this one another task_id, or switch TERMINAL_CONTAINER_PERSISTENT off"
            )
        place = hermes_home() / "singularity" / "kept" / key
        place.mkdir(parents=True, exist_ok=True)
        disk = self._settings.container_disk
        file, folder = place / "overlay.img", place / "overlay"
        if folder.exists() if disk else file.exists():
            raise SettingsError(
                f"container_disk was {'not ' if disk else ''}set when the kept files of task "
                f"{self._settings.task_id!r} were made; set it as it was, or remove {place}"
            )
        if not disk:
            folder.mkdir(exist_ok=True)
            return folder
        if not file.exists():
            part = self._file_system(place / "new.img")
            part.replace(file)
        elif file.stat().st_size != disk * MEGABYTE:
            raise SettingsError(
                f"container_disk is {disk} MB, and the kept files of task {self._settings.task_id!r} have a file "
                f"system of {file.stat().st_size // MEGABYTE} MB; set it to that, or remove {place}"
            )
        return file

    def _file_system(self, path: Path) -> Path:
        disk = self._settings.container_disk
        assert disk is not None
        if disk < SMALLEST_DISK:
            raise UnsupportedError(
                f"backend 'singularity' cannot enforce a container_disk below {SMALLEST_DISK} MB; set it to that"
            )
        path.unlink(missing_ok=True)
        outcome = self._client.run("--quiet", "overlay", "create", "--sparse", "--size", str(disk), str(path))
        if not outcome.ok:
            raise UnsupportedError(
                f"backend 'singularity' cannot enforce container_disk here: {outcome.reason}. Install e2fsprogs, which "
                "makes the file system, or leave container_disk unset"
            )
        return path

    def mounted(self) -> None:
        """Note that an instance has the layer open: a file that is not kept needs no name any more."""
        if self._passing:
            remove_tree(self._passing)
            self._passing = None

    def release(self) -> None:
        """Free what is held here, when no instance has the layer open any more."""
        self.mounted()
        if self._claim:
            self._claim.release()
            self._claim = None

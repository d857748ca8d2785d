"""Where what is written in the container goes: memory, a file of fixed size, or a place that outlives it."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

from environments.errors import SettingsError
from environments.legacy import UnheldLimitsError
from environments.settings import EnvironmentSettings
from environments.singularity.client import Client
from environments.singularity.machine import Machine
from environments.singularity.settings import SingularitySettings

SMALLEST_DISK = 64
"""MB below which the engine makes no file system."""
MEGABYTE = 1024 * 1024
ABOUT = "about.json"
"""The file in which it says what kept files are for."""


@dataclass(frozen=True, slots=True)
class About:
    """What is written down beside kept files, as their name says nothing to a person."""

    task: str = ""
    image: str = ""
    created: float | None = None
    """When they were begun, in seconds since the epoch."""

    @classmethod
    def new(cls, task: str, image: str) -> About:
        """Return what is to be written now."""
        return cls(task, image, time.time())

    @classmethod
    def read(cls, text: str) -> About:
        """Return what was written; nothing of what it is not."""
        try:
            found = json.loads(text)
            created = found.get("created")
            return cls(str(found.get("task", "")), str(found.get("image", "")), float(created) if created else None)
        except (ValueError, TypeError, AttributeError):
            return cls()

    def written(self) -> str:
        """Return the text of the file."""
        return json.dumps(asdict(self)) + "\n"


class Overlay:
    """The writable layer of one instance.

    Args:
        client: Makes file systems.
        settings: Say which layer it is.
        image: What it lies over: what is kept for one image is of no use over another.

    Raises:
        SettingsError: The settings contradict each other, or what was kept.
        UnsupportedError: A disk limit cannot be had here.
    """

    def __init__(self, client: Client, settings: EnvironmentSettings, image: str) -> None:
        self._client = client
        self._settings = settings
        self._machine = client.machine
        self._passing: PurePosixPath | None = None
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
            self._passing = self._machine.make_passing_folder()
            return self._mounted(self._file_system(self._passing / "overlay.img"))
        return ["--writable-tmpfs"]

    @staticmethod
    def _mounted(path: PurePosixPath) -> list[str]:
        """Leave /tmp to the overlay: it is else a file system of its own, neither kept nor limited."""
        return ["--overlay", str(path), "--no-mount", "tmp"]

    def _kept(self, image: str) -> PurePosixPath:
        machine = self._machine
        place = kept_folder(machine) / kept_key(self._settings, image)
        machine.make_folder(place)
        disk = self._settings.container_disk
        file, folder = place / "overlay.img", place / "overlay"
        has_folder, has_file = bool(machine.kind(folder)), bool(machine.kind(file))
        if has_folder and "container_disk" in self._settings.default_limits:
            raise self._no_limit(f"{place} was made without")
        if has_folder if disk else has_file:
            raise SettingsError(
                f"container_disk was {'not ' if disk else ''}set when the kept files of task "
                f"{self._settings.task_id!r} were made; set it as it was, or remove {place}"
            )
        if not (has_folder or has_file):
            machine.write(place / ABOUT, About.new(self._settings.task_id, image).written())
        if not disk:
            machine.make_folder(folder)
            return folder
        if not has_file:
            machine.rename(self._file_system(place / "new.img"), file)
        elif (size := machine.size(file)) != disk * MEGABYTE:
            raise SettingsError(
                f"container_disk is {disk} MB, and the kept files of task {self._settings.task_id!r} have a file "
                f"system of {size // MEGABYTE} MB; set it to that, or remove {place}"
            )
        return file

    def _file_system(self, path: PurePosixPath) -> PurePosixPath:
        disk = self._settings.container_disk
        assert disk is not None
        if disk < SMALLEST_DISK:
            raise UnheldLimitsError(
                f"backend 'singularity' cannot enforce a container_disk below {SMALLEST_DISK} MB; set it to that"
            )
        self._machine.remove(path)
        outcome = self._client.run("--quiet", "overlay", "create", "--sparse", "--size", str(disk), str(path))
        if not outcome.ok:
            raise self._no_limit(f"{outcome.reason}. Install e2fsprogs, which makes the file system")
        return path

    @staticmethod
    def _no_limit(why: str) -> UnheldLimitsError:
        message = f"backend 'singularity' cannot enforce container_disk here: {why}, or leave container_disk unset"
        return UnheldLimitsError(message, ["container_disk"], why)

    def release(self) -> None:
        """Free what is held here, as an instance has the layer open, or will not: a passing file needs no name then."""
        if self._passing:
            self._machine.remove(self._passing)
            self._passing = None


def kept_folder(machine: Machine) -> PurePosixPath:
    """Return the directory of all kept files of a machine. It need not be there."""
    return machine.folder / "kept"


def kept_key(settings: EnvironmentSettings, image: str) -> str:
    """Return what the kept files of a task over an image go by."""
    return hashlib.sha256(f"{settings.task_id}\0{image}".encode()).hexdigest()[:24]

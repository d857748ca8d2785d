"""What of the engine's machine is seen in a container: directories, files and named volumes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from environments.errors import SettingsError
from environments.validation import closest

if TYPE_CHECKING:
    from docker.types import Mount

_PATH_BEGINS = ("/", "~", ".")
"""What tells a path from the name of a volume."""
_ACCESS = {"rw": False, "ro": True}
_PROPAGATION = ("shared", "slave", "private", "rshared", "rslave", "rprivate")


@dataclass(frozen=True, slots=True)
class Mounts:
    """Mounts in the two forms that the engine takes.

    It makes what a mount of the older form names and is not there: an empty directory of root's. A mount of the newer
    form it refuses, wherever the engine is, so that this is taken for paths. Only the older one has named volumes that
    are made on first use, and the labels of SELinux (`z`, `Z`).
    """

    paths: tuple[Mount, ...]
    volumes: tuple[str, ...]
    targets: frozenset[str]
    """Where they are seen in the container."""


def check_volume(setting: str, volume: str) -> None:
    """Check one mount as the docker program would write it.

    Args:
        setting: Where it was written, for the error.
        volume: The mount.

    Raises:
        SettingsError: It is of another form.
    """
    parts = volume.split(":")
    if not 2 <= len(parts) <= 3 or not parts[0] or not parts[1].startswith("/"):
        raise SettingsError(
            f"{setting}: {volume!r} should be host_path:/container_path, or host_path:/container_path:ro"
        )
    if "/" in parts[0] and not parts[0].startswith(_PATH_BEGINS):
        raise SettingsError(
            f"{setting}: {volume!r} begins with neither a path nor the name of a volume; write ./{volume}, which is "
            "taken from the working directory here, or an absolute path"
        )


def near_source(missing: str) -> str:
    """Return ` (did you mean '...'?)` if something beside it has a similar name, or nothing.

    Args:
        missing: The path of a directory or file that is not there.
    """
    path = Path(missing)
    try:
        return closest(path.name, [found.name for found in path.parent.iterdir()])
    except OSError:
        return ""


def mounts(volumes: Iterable[str], *, elsewhere: bool = False) -> Mounts:
    """Turn mounts that `check_volume` has let pass into what the engine is asked for.

    Args:
        volumes: The mounts.
        elsewhere: Whether the engine is on another machine, where nothing is known of `~` and `.`.

    Raises:
        SettingsError: A path of another machine is not absolute.
    """
    paths, named = [], []
    targets = set()
    for volume in volumes:
        source, target, *options = volume.split(":")
        targets.add(target.rstrip("/"))
        if source.startswith(_PATH_BEGINS):
            if elsewhere and not source.startswith("/"):
                raise SettingsError(
                    f"docker_volumes: {volume!r} is of the machine that the engine is on; write its absolute path there"
                )
            source = str(Path(source).expanduser().absolute())
            if mount := _mount(source, target, options[0].split(",") if options else ()):
                paths.append(mount)
                continue
        named.append(":".join([source, target, *options]))
    return Mounts(tuple(paths), tuple(named), frozenset(targets))


def _mount(source: str, target: str, options: Sequence[str]) -> Mount | None:
    """Return a mount of a path; None if it has an option that only the older form knows."""
    from docker.types import Mount

    read_only, propagation = False, None
    for option in options:
        if option in _ACCESS:
            read_only = _ACCESS[option]
        elif option in _PROPAGATION:
            propagation = option
        else:
            return None
    return Mount(target, source, type="bind", read_only=read_only, propagation=propagation)

"""The processes and files of an environment, as visible on this machine, containers included."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

from environments.owner import MARKER_VARIABLE, Owner

_PROCESSES = Path("/proc")
_SHELLS = ("bash", "dash", "ash")
_MARKER = f"{MARKER_VARIABLE}=".encode()


def marked_processes(name: str) -> dict[int, str]:
    """Return the processes of an environment, each with its marker.

    Args:
        name: The environment's name, the beginning of its markers.
    """
    return {pid: marker for pid, marker in _markers() if marker.startswith(f"{name}/")}


def internal_shells(name: str) -> list[int]:
    """Return our internal shells, without their forks. A fork has the shell's marker until its exec."""
    marked = marked_processes(name).items()
    found = [pid for pid, marker in marked if is_internal(marker) and _status(pid)[0] in _SHELLS]
    return sorted(pid for pid in found if _status(pid)[1] not in found)


def is_internal(marker: str) -> bool:
    """Return True for the marker of an internal process, without a command."""
    return marker.count("/") == 2


def kill(pid: int) -> None:
    """Kill a process, unless already gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def local_files() -> list[str]:
    """Return the files and directories on this machine with this process's name."""
    folders = {Path("/tmp"), Path(tempfile.gettempdir())}
    mark = Owner.this_process().mark
    return sorted(str(path) for folder in folders for path in folder.glob(f"hermes-{mark}*"))


def _status(pid: int) -> tuple[str, int]:
    """Return the name and the parent of a process, or an empty name and 0 after the end."""
    with contextlib.suppress(OSError):
        head, _, tail = (_PROCESSES / str(pid) / "stat").read_text().rpartition(")")
        return head.partition("(")[2], int(tail.split()[1])
    return "", 0


def _markers() -> Iterator[tuple[int, str]]:
    for folder in _PROCESSES.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # ended, or of another user
                for entry in (folder / "environ").read_bytes().split(b"\0"):
                    if entry.startswith(_MARKER):
                        yield int(folder.name), entry.removeprefix(_MARKER).decode("utf-8", "replace")

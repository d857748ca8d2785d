"""What a Python has read on its way up. When it is another, a Python that is up already is not like a new one."""

from __future__ import annotations

import os
import sys
import time

CUSTOMIZED = ("sitecustomize", "usercustomize")
SHAPING = ("PYTHON", "LANG", "LC_", "LD_", "GLIBC_", "MALLOC_")
SHAPING_NAMES = ("HOME", "TZ")
"""What the names of variables begin with, or are, that an interpreter or its libraries read as they start."""


def library() -> str:
    """Return the directory of the standard library."""
    return os.path.dirname(os.__file__)  # noqa: PTH120


def is_customized() -> bool:
    """Return whether somebody's own code ran on the way up, which may do anything, and in each process anew."""
    customs = [sys.modules[name] for name in CUSTOMIZED if name in sys.modules]
    # What a distribution puts beside its library itself is no script's concern.
    return any(os.path.dirname(getattr(each, "__file__", None) or "") != library() for each in customs)  # noqa: PTH120


def shaping(variables: dict[bytes, bytes], directory: bytes) -> dict[bytes, bytes] | None:
    """Return the variables that an interpreter reads as it starts.

    Args:
        variables: All of them.
        directory: Our own directory, with which PYTHONPATH begins.

    Returns:
        None if they say something that depends on where it starts.
    """
    starts = tuple(name.encode() for name in SHAPING)
    names = [name.encode() for name in SHAPING_NAMES]
    found = {name: value for name, value in variables.items() if name.startswith(starts) or name in names}
    path = found.get(b"PYTHONPATH", b"").split(b":")
    if path[:1] == [directory]:
        del path[0]
    if not all(entry.startswith(b"/") for entry in path):
        return None
    found[b"PYTHONPATH"] = b":".join(path)
    return found


class Fingerprint:
    """The files that were read, as they were then.

    Args:
        path: `sys.path` as it was on the way up.
    """

    def __init__(self, path: list[str]) -> None:
        executable = sys.executable
        home = os.path.dirname(executable)  # noqa: PTH120
        files = [executable, os.path.realpath(executable), home + "/pyvenv.cfg", home + "/../pyvenv.cfg"]
        own = library() + "/"
        files += [f"{own}{name}.py" for name in CUSTOMIZED]
        for directory in path:
            if directory and (not directory.startswith(own) or directory.endswith("-packages")):
                files += _read_in(directory)
        self._files = tuple(dict.fromkeys(files))
        self._seen = self._look()

    def _look(self) -> list[tuple[int, int, int]]:
        return [_state(file) for file in self._files]

    def is_what_was_read(self) -> bool:
        """Return whether nothing has changed since this process began, which may have read what was before."""
        try:
            if not os.path.samefile("/proc/self/exe", sys.executable):  # noqa: PTH121
                return False
        except OSError:
            return False
        began = _process_began()
        return all(_changed(file) < began for file in self._files)

    def holds(self) -> bool:
        """Return whether all of them are as they were."""
        return self._look() == self._seen


def _read_in(directory: str) -> list[str]:
    """Return what is read in a directory of modules: in one of packages, also its `.pth` files."""
    customs = [f"{directory}/{name}{end}" for name in CUSTOMIZED for end in ("", ".py")]
    if not directory.endswith("-packages"):
        return customs
    try:
        names = os.listdir(directory)  # noqa: PTH208
    except OSError:
        names = []
    return [directory, *customs, *(f"{directory}/{name}" for name in names if name.endswith(".pth"))]


def _process_began() -> float:
    """Return when this process began, in seconds of the clock of files, or up to a clock tick before."""
    with open("/proc/self/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def _changed(file: str) -> float:
    try:
        return max(os.lstat(file).st_ctime, os.stat(file).st_ctime)  # noqa: PTH116
    except OSError:
        return 0.0


def _state(file: str) -> tuple[int, int, int]:
    try:
        found = os.stat(file)  # noqa: PTH116
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns)

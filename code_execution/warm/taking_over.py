"""Becoming like another process: its directory, its open files, its umask, and the variables that it was given.

The other one is the shell that asks for a script, which stands where the script would if it had been started from it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import time

_ABOVE_ALL = 300
"""Descriptors from here on are nobody's whom we take over from."""
_PATIENCE = 2.0
"""Seconds for a shell to have said what it wants."""
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


class UnlikeError(Exception):
    """The other one has something that we cannot have."""


class Opened:
    """A file of the other one, which we have opened too.

    Args:
        number: Its descriptor there.
        ours: Ours.
    """

    def __init__(self, number: int, ours: int) -> None:
        self.number = number
        self.ours = ours


def opened_files(pid: int, places: tuple[str, ...]) -> list[Opened]:
    """Open the files that the other one hands on. Its input is none: a shell reads our answer there.

    Args:
        pid: Its process id.
        places: Directories of which the files are not meant.

    Raises:
        OSError: One of them cannot be opened again, as it is a socket.
    """
    files = [Opened(0, out_of_the_way(os.open(os.devnull, os.O_RDONLY)))]
    for number in (1, 2):
        _await_own(f"/proc/{pid}/fd/{number}", places)
    for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
        link = f"/proc/{pid}/fd/{name}"
        try:
            is_other = name == "0" or os.readlink(link).startswith(places)  # noqa: PTH115
            flags = _flags(pid, name)
        except FileNotFoundError:  # it was the shell's own, for the moment
            continue
        if not is_other and not flags & os.O_CLOEXEC:
            files.append(Opened(int(name), _opened(link, flags)))
    return files


def _await_own(link: str, places: tuple[str, ...]) -> None:
    """Wait until the other one has its own output again: a shell that prints into a pipe has that pipe for so long."""
    give_up = time.monotonic() + _PATIENCE
    while os.readlink(link).startswith(places):  # noqa: PTH115
        if time.monotonic() > give_up:
            raise UnlikeError  # its output is one of ours
        time.sleep(0.0002)


def _flags(pid: int, name: str) -> int:
    with open(f"/proc/{pid}/fdinfo/{name}", "rb") as file:
        for line in file:
            if line.startswith(b"flags:"):
                return int(line.split()[1], 8)
    raise UnlikeError  # the kernel does not say how a file is open


def _opened(link: str, flags: int) -> int:
    kept = flags & (os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK)
    # Of a pipe whose other end is gone, opening would be for ever.
    found = os.open(link, kept | os.O_NONBLOCK | os.O_NOCTTY)
    if not kept & os.O_NONBLOCK:
        fcntl.fcntl(found, fcntl.F_SETFL, kept)
    return out_of_the_way(found)


def out_of_the_way(descriptor: int) -> int:
    """Return another descriptor of a file, in place of one, that is nobody's whom we take over from."""
    ours = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE_ALL)
    os.close(descriptor)
    return ours


def have_files(files: list[Opened], kept: tuple[int, ...]) -> None:
    """Close all of our own files but some, and have these under their numbers."""
    stay = {*kept, *(file.ours for file in files)}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) not in stay:
            with contextlib.suppress(OSError):  # that of the list itself
                os.close(int(name))
    for file in files:
        os.dup2(file.ours, file.number)
        os.close(file.ours)


def have_place_of(pid: int) -> None:
    """Be in the directory of the other one, with its umask, and check that the same limits hold.

    Raises:
        OSError: We cannot.
        UnlikeError: Other limits hold there.
    """
    os.chdir(f"/proc/{pid}/cwd")
    with open(f"/proc/{pid}/status", "rb") as file:
        masks = [line.split()[1] for line in file if line.startswith(b"Umask:")]
    if not masks:
        raise UnlikeError  # the kernel does not say which umask another process has
    os.umask(int(masks[0], 8))
    if any(resource.prlimit(pid, limit) != resource.getrlimit(limit) for limit in _LIMITS):
        raise UnlikeError  # other limits hold
    if os.getpriority(os.PRIO_PROCESS, pid) != os.getpriority(os.PRIO_PROCESS, 0):
        raise UnlikeError  # it has another priority


def have_variables(given: dict[bytes, bytes]) -> None:
    """Have these variables, and no others."""
    import posix

    os.environ.clear()
    for name, value in given.items():
        os.environb[name] = value
    posix.environ.clear()
    posix.environ.update(given)

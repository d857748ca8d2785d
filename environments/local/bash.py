"""Direct start of this machine's bash, without a search by /bin/sh."""

from __future__ import annotations

import contextlib
import os

from environments.owner import MARKER_VARIABLE
from environments.secrets import command_variables
from environments.shell.child_stream import ChildStream
from environments.shell.dialect.boot import BootArgv
from environments.shell.dialect.commands import brand_of, environment_of
from environments.variables import is_name

_RLIMIT_LOCKS = 10
"""Linux's number of RLIMIT_LOCKS, which the module `resource` lacks."""
_Identity = tuple[str, int, int, int]
_bash_by_path: dict[str, _Identity] = {}
"""The bash that has become a shell of ours, by PATH."""


def remember_bash() -> None:
    """Store the first bash on PATH, after a start by /bin/sh has proved all required features."""
    path = os.environ.get("PATH", "")
    if path in _bash_by_path:
        return
    places = (os.path.join(folder, "bash") for folder in os.get_exec_path())  # noqa: PTH118
    place = next((place for place in places if os.access(place, os.X_OK)), None)
    if place and os.path.isabs(place):  # noqa: PTH117
        with contextlib.suppress(OSError):
            _bash_by_path[path] = _identity(place)


def open_bash(argv: BootArgv) -> ChildStream | None:
    """Start the stored bash, with the variable and the limit as set by /bin/sh.

    Args:
        argv: The program for the search.

    Returns:
        The streams; None without a stored bash, after its replacement, or if this system cannot set limits of others.

    Raises:
        EnvironmentStartError: The start failed.
    """
    stored = _bash_by_path.get(os.environ.get("PATH", ""))
    if stored is None or "BASH_ENV" in os.environ:  # bash runs this file before the limit is set
        return None
    try:
        from resource import prlimit

        if _identity(stored[0]) != stored:
            raise FileNotFoundError
        variables = {**command_variables(), MARKER_VARIABLE: argv.marker}
        if not all(map(is_name, variables)):  # such as an exported function, which some /bin/sh drop
            return None
    except (ImportError, OSError, KeyError):  # KeyError: another thread has removed a variable
        _bash_by_path.pop(os.environ.get("PATH", ""), None)
        return None
    stream = ChildStream([stored[0], "--noprofile", "--norc"], env=variables)
    brand = brand_of(environment_of(argv.marker))
    with contextlib.suppress(OSError, ValueError):  # this process itself may have a lower limit
        prlimit(stream.pid, _RLIMIT_LOCKS, (brand, brand))
    stream.is_bash = True
    return stream


def _identity(path: str) -> _Identity:
    status = os.stat(path)  # noqa: PTH116  # commands do without pathlib
    return path, status.st_dev, status.st_ino, status.st_mtime_ns

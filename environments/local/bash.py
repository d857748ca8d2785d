"""A bash of this machine that is started at once, without a /bin/sh that looks for it first."""

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
"""Linux's number of it, which the module `resource` has no name for."""
_Identity = tuple[str, int, int, int]
_found: dict[str, _Identity] = {}
"""By PATH, the bash that has become a shell of ours."""


def remember_bash() -> None:
    """Note that the first bash on PATH is one that a /bin/sh has started, and that has all that is needed."""
    path = os.environ.get("PATH", "")
    if path in _found:
        return
    places = (os.path.join(folder, "bash") for folder in os.get_exec_path())  # noqa: PTH118
    place = next((place for place in places if os.access(place, os.X_OK)), None)
    if place and os.path.isabs(place):  # noqa: PTH117
        with contextlib.suppress(OSError):
            _found[path] = _identity(place)


def open_bash(argv: BootArgv) -> ChildStream | None:
    """Start the bash that is known, with the variable and the limit that a /bin/sh would give it.

    Args:
        argv: The program that would look for it.

    Returns:
        Its streams; None where none is known, where it was replaced, or where this system cannot set limits for it.

    Raises:
        EnvironmentStartError: It cannot be started.
    """
    known = _found.get(os.environ.get("PATH", ""))
    if known is None or "BASH_ENV" in os.environ:  # a file that it runs before the limit is set
        return None
    try:
        from resource import prlimit

        if _identity(known[0]) != known:
            raise FileNotFoundError
        variables = {**command_variables(), MARKER_VARIABLE: argv.marker}
        if not all(map(is_name, variables)):  # such as an exported function, which some /bin/sh drop
            return None
    except (ImportError, OSError, KeyError):  # a KeyError: another thread has removed a variable meanwhile
        _found.pop(os.environ.get("PATH", ""), None)
        return None
    stream = ChildStream([known[0], "--noprofile", "--norc"], env=variables)
    brand = brand_of(environment_of(argv.marker))
    with contextlib.suppress(OSError, ValueError):  # as where this process itself has a lower limit
        prlimit(stream.pid, _RLIMIT_LOCKS, (brand, brand))
    stream.is_bash = True
    return stream


def _identity(path: str) -> _Identity:
    status = os.stat(path)  # noqa: PTH116  # commands do without pathlib
    return path, status.st_dev, status.st_ino, status.st_mtime_ns

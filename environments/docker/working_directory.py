"""The working directory of a new container, which is made where it is missing."""

from __future__ import annotations

import contextlib
import io
import tarfile
import time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from docker.errors import APIError

if TYPE_CHECKING:
    from docker import APIClient

_MADE_BY_USER = """\
d=$1
case $d in
  "~") d=$HOME ;;
  "~/"*) d=$HOME/${d#"~/"} ;;
  /*) ;;
  *) d=$PWD/$d ;;
esac
[ -d "$d" ] || mkdir -p -- "$d" 2>/dev/null && exit
p=$d
while [ ! -e "$p" ]; do p=${p%/*}; p=${p:-/}; done
if [ -x "$p" ]; then printf '%s\\0%s\\0%s\\0%s' "$p" "$d" "$(id -u)" "$(id -g)"; fi
"""
"""What it prints is where the directory belongs, and to whom, if the user may not make it."""


def make_working_directory(api: APIClient, container: str, cwd: str) -> None:
    """Make a directory in a container: as the container's user where that may, and else by the engine, for that user.

    No process of the container's gets more rights for it. What cannot be made is not told here: the session, which is
    to begin there, says so.

    Args:
        api: The engine.
        container: A container that runs.
        cwd: The directory. `~` is the home of the container's user.
    """
    parent, *wanted = _printed(api, container, cwd).split("\0")
    if len(wanted) == 3:
        directory, uid, gid = wanted
        new = PurePosixPath(directory).relative_to(parent)
        with contextlib.suppress(APIError):  # nothing can be made below a root that is read-only
            api.put_archive(container, parent, _archive(new, int(uid), int(gid)))


def _archive(path: PurePosixPath, uid: int, gid: int) -> bytes:
    """Return an archive of a directory and those above it, of which the last alone is the user's."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for each in (*reversed(path.parents[:-1]), path):
            entry = tarfile.TarInfo(str(each))
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, time.time()
            if each == path:
                entry.uid, entry.gid = uid, gid
            archive.addfile(entry)
    return data.getvalue()


def _printed(api: APIClient, container: str, cwd: str) -> str:
    made = api.exec_create(container, ["/bin/sh", "-c", _MADE_BY_USER, "sh", cwd], stderr=False)
    return bytes(api.exec_start(made["Id"])).decode("utf-8", "surrogateescape")

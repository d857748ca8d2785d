"""A directory of a target as a tar archive, and back."""

from __future__ import annotations

import math
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import IO, TYPE_CHECKING

from environments import BaseEnvironment, TerminalError

if TYPE_CHECKING:
    from _typeshed import SupportsRead

_IN_MEMORY = 16 * 1024 * 1024


def packed(env: BaseEnvironment, root: str, leave_out: Iterable[PurePath] = ()) -> IO[bytes]:
    """Return a directory as a tar archive, whose members are named as from there.

    The archive is in memory as long as it is small, and in a file that goes when it is closed.

    Args:
        env: Where the directory is. The target needs `tar`.
        root: The directory.
        leave_out: What is not packed, as from there.

    Raises:
        TerminalError: It could not be packed, or not all of it.
    """
    archive = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # the caller's
    excludes = [f"--exclude=./{path.as_posix()}" for path in leave_out]

    def keep(piece: bytes, channel: str) -> None:
        if channel == "stdout":
            archive.write(piece)

    argv = ["tar", "-C", root, *excludes, "-cf", "-", "."]
    done = env.execute_oneshot(
        argv, timeout=math.inf, stderr="separate", binary=True, max_output_bytes=4096, on_output=keep
    )
    if not done.ok:
        archive.close()
        raise TerminalError(f"tar could not pack {root}: {done.stderr}")
    archive.seek(0)
    return archive


def unpack(
    env: BaseEnvironment, archive: SupportsRead[bytes], root: str, check: Callable[[tarfile.TarFile], object]
) -> None:
    """Unpack a tar archive into a directory of a target.

    Args:
        env: Where the directory is. The target needs `tar`.
        archive: The archive.
        root: The directory.
        check: Called with the archive before anything of it is moved. What it raises is raised.

    Raises:
        tarfile.TarError: It is no tar archive.
        TerminalError: It could not be unpacked, or not all of it.
    """
    there = f"{env.internal.scratch_directory()}/unpacked.tar"
    with tempfile.NamedTemporaryFile() as here:
        shutil.copyfileobj(archive, here)
        here.seek(0)
        with tarfile.open(fileobj=here) as members:
            check(members)
        env.put_file(here.name, there)
    done = env.execute_oneshot(["tar", "-C", root, "-xf", there], timeout=math.inf)
    env.remove(there)
    if not done.ok:
        raise TerminalError(f"tar could not unpack into {root}: {done.output}")

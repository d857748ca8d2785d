"""Files for places of a target that only root may write to, where the environment's own user is another one."""

from __future__ import annotations

import contextlib
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO, cast

from environments import BaseEnvironment
from environments.cancellation import check_scope
from environments.errors import TargetPermissionError

_UNPACK = 'mkdir -p -- "$1" && exec tar xof - -C "$1"'


def upload(env: BaseEnvironment, here: str | Path, there: str) -> None:
    """Copy a file or a directory to a target: as its user, or as root where that user may not write.

    Args:
        env: The environment.
        here: The file or directory here.
        there: The path that it is to have.

    Raises:
        TargetPermissionError: Root may not write there either.
        TerminalError: It could not be copied for another reason.
        UnsupportedError: The backend cannot run a command as root.
    """
    put = env.put_dir if Path(here).is_dir() else env.put_file
    try:
        put(here, there)
    except TargetPermissionError:
        if not _unpacked_as_root(env, Path(here), PurePosixPath(there)):
            raise


def _unpacked_as_root(env: BaseEnvironment, here: Path, there: PurePosixPath) -> bool:
    folder, name = (there, ".") if here.is_dir() else (there.parent, there.name)
    process = env.start(["sh", "-c", _UNPACK, "sh", str(folder)], user="root", stdin="consumed")
    try:
        # What it could not write it says by its exit code; it may then not read to the end.
        with contextlib.suppress(BrokenPipeError), tarfile.open(fileobj=cast(IO[bytes], process), mode="w|") as tar:
            tar.add(here, arcname=name, filter=_unless_cancelled)
        process.close_stdin()
        return process.wait() == 0
    finally:
        process.kill()


def _unless_cancelled(member: tarfile.TarInfo) -> tarfile.TarInfo:
    check_scope()
    return member

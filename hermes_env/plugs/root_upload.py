"""Upload of files to a target, as root where the target's user lacks permission."""

from __future__ import annotations

import asyncio
import contextlib
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

from environments.errors import TargetPermissionError
from hermes_env.aio import AsyncEnvironment

_UNPACK = 'mkdir -p -- "$1" && exec tar xof - -C "$1"'
_PIECE = 1024 * 1024


async def upload(env: AsyncEnvironment, here: str | Path, there: str) -> None:
    """Copy a file or a directory to a target: as the target's user, or as root where the user lacks permission.

    Args:
        env: The environment.
        here: The local file or directory.
        there: The path in the target.

    Raises:
        TargetPermissionError: Root lacks permission too.
        TerminalError: The copy failed for another reason.
        UnsupportedError: The backend cannot run a command as root.
    """
    put = env.put_dir if Path(here).is_dir() else env.put_file
    try:
        await put(here, there)
    except TargetPermissionError:
        if not await _unpacked_as_root(env, Path(here), PurePosixPath(there)):
            raise


async def _unpacked_as_root(env: AsyncEnvironment, here: Path, there: PurePosixPath) -> bool:
    folder, name = (there, ".") if here.is_dir() else (there.parent, there.name)
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w") as members:
            await asyncio.to_thread(members.add, here, name)
        archive.seek(0)
        process = await env.start(["sh", "-c", _UNPACK, "sh", str(folder)], user="root", stdin="consumed")
        try:
            # tar may end early if it cannot write; the exit code reports this.
            with contextlib.suppress(BrokenPipeError):
                while piece := archive.read(_PIECE):
                    await process.write(piece)
            await process.close_stdin()
            return await process.wait() == 0
        finally:
            await process.kill()

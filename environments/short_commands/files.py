"""File transfer by a service's own calls, with the common rules for paths, modes and links.

The services write in place, with a mode of their own. So a file is written into our private directory first, and moved
from there by the same shell text as on other backends.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shlex
import stat
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from environments.cancellation import check_scope, in_no_scope, on_scope_cancel
from environments.errors import CallCancelledError
from environments.files import ANY, WriteConditions
from environments.local_files import PERMISSIONS, open_regular, replace_file
from environments.loop import current, in_worker, spawn
from environments.shell.dialect.files import SMALL, reading
from environments.shell.dialect.writing import needed, placing
from environments.shell.files import ShellFiles
from environments.shell.transfer import ReadableOutput, Runner, call_at, run_reader

if TYPE_CHECKING:
    from environments.short_commands.environment import PerCommandEnvironment

T = TypeVar("T")

INLINE = 128 * 1024
"""Maximum size in bytes of a file that is sent along with the answer about its place."""
_FIND = """\
if [ "$(stat -Lc %s -- "$path")" -le {inline} ] && command -v base64 >/dev/null; then
  echo "$(stat -Lc %a -- "$path") here"; base64 <"$path"
else
  [ -r "$path" ] && echo "$(stat -Lc %a -- "$path") there" && readlink -f -- "$path"
fi
"""


class NativeFiles(ShellFiles):
    """Files of a target whose service has file transfer.

    Args:
        service: The environment. Uploads report no progress, as the services' clients have none.
    """

    def __init__(self, service: PerCommandEnvironment) -> None:
        super().__init__(Runner(service), service.settings.env, service.progress)
        self._service = service

    async def write(self, path: str, data: bytes, mode: str = "", conditions: WriteConditions = ANY) -> bool:
        if len(data) <= SMALL:
            return await super().write(path, data, mode, conditions)
        self.check_name(path)
        if conditions != ANY:  # fails before any data is sent
            await self.check(path, conditions)
        return await self._upload(path, data, mode, conditions)

    async def put(self, local: Path, remote: str) -> None:
        self.check_name(remote)
        with await in_worker(open_regular, local) as file:
            status = os.fstat(file.fileno())
        mode = stat.S_IMODE(status.st_mode) & PERMISSIONS
        async with self.progress.counting(f"uploading {remote}", status.st_size) as count:
            await self._upload(remote, local, f"{mode:o}")
            count.done = status.st_size

    async def _upload(self, path: str, source: bytes | Path, mode: str, conditions: WriteConditions = ANY) -> bool:
        part = f"{await self._service.scratch.directory()}/{os.urandom(8).hex()}"
        kept = shlex.quote(part)
        command = f"trap 'rm -f -- {kept}' EXIT\n" + placing(path, f"cat {kept}", mode, conditions=conditions)
        try:
            await _in_scope(self._service.put_native(source, part))
            result = await self.runner.run(call_at(path, command, needed(conditions.guard)))
            return await self.written(path, conditions, result.exit_code, result.output)
        except CallCancelledError:
            with in_no_scope():
                await self.runner.run(call_at(path, f"rm -f -- {kept} {kept}.*"))
            raise

    async def read(self, path: str, limit: int | None = None) -> bytes:
        # The services transfer whole files only, and need names that are valid UTF-8.
        if limit is not None or not _is_text(path):
            return await super().read(path, limit)
        _, place, data = await self._locate(path)
        return await _in_scope(self._service.get_native(place)) if data is None else data

    async def _fetch(self, place: str, reader: ReadableOutput) -> None:
        async with contextlib.aclosing(self._service.fetch_native(place)) as pieces:
            async for piece in pieces:
                await reader.put(piece)

    async def get(self, remote: str, local: Path) -> None:
        if not _is_text(remote):
            await super().get(remote, local)
            return
        mode, place, data = await self._locate(remote)
        size = None if data is None else len(data)

        async def copy_in(reader: ReadableOutput) -> int:
            await (reader.put(data) if data is not None else _in_scope(self._fetch(place, reader)))
            return 0

        def copy_out(reader: ReadableOutput) -> None:
            def write(file: BinaryIO) -> None:
                reader.copy(file, count)
                self.raise_for("read", remote, reader.code, "it did not come whole")

            replace_file(local, write, mode)

        async with self.progress.counting(f"downloading {remote}", size) as count:
            await run_reader(copy_in, copy_out)

    async def _locate(self, path: str) -> tuple[int, str, bytes | None]:
        """Return a file's mode, and its place or its contents."""
        command = reading(path, _FIND.replace("{inline}", str(INLINE)))
        result = await self.runner.run(call_at(path, command, separate=True))
        self.raise_for("read", path, await self.explained(path, "read", result.exit_code), result.stderr or "")
        head, _, rest = result.output.partition("\n")
        mode, _, where = head.partition(" ")
        bits = int(mode, 8) & PERMISSIONS
        return (bits, "", base64.b64decode(rest)) if where == "here" else (bits, rest.removesuffix("\n"), None)


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _in_scope(work: Coroutine[Any, Any, T]) -> T:
    """Await a service call. A cancelled scope cancels the call."""
    task = spawn(work, may_fail=True)
    with on_scope_cancel(lambda: current().soon(task.cancel)):
        try:
            return await task
        except asyncio.CancelledError:
            check_scope()
            raise

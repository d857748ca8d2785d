"""Files and entries of directories of a target, through its shells alone.

A small file travels as base64 in one command of a warm shell. A large one, or one to a target without `base64`, is
streamed as it is. Either way it is written beside its place and renamed into it.
"""

from __future__ import annotations

import base64
import errno
import os
import posixpath
import re
import stat
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from environments.cancellation import check_scope
from environments.errors import NOTHING_THERE, TargetFileNotFoundError, TerminalError, target_error
from environments.files import FileStatus, TargetFiles
from environments.local_files import PERMISSIONS, PIECE, open_regular, read_pieces, replace_file
from environments.loop import in_worker
from environments.options import means_directory
from environments.result import CommandResult
from environments.shell.dialect.base import Where
from environments.shell.dialect.files import (
    NO_BASE64,
    NO_STAT,
    THE_ROOT,
    decoding,
    describing,
    error_number,
    existing,
    explaining,
    listing_entries,
    making,
    placing,
    printing,
    removing,
    statting,
    taking,
)
from environments.shell.transfer import Arriving, Collected, Runner, Words, call_at, received, sent
from environments.starting import Reporter

if TYPE_CHECKING:
    from environments.shell.directories import Directories
    from environments.shell.oneshot import Write

SMALL = 16 * 1024
"""Bytes up to which base64 in a command is quicker than a stream of its own."""

_MODE_AND_SIZE = re.compile(rb"([0-7]+) ([0-9]+)\n")


class ShellFiles(TargetFiles):
    """Files of a target, reached through shells.

    Args:
        runner: Runs commands in the target.
        backend: The backend's name, for errors.
        progress: Receives how far a transfer is.
    """

    def __init__(self, runner: Runner, backend: str, progress: Reporter | None = None) -> None:
        self.runner = runner
        self.backend = backend
        self.progress = progress or Reporter(backend)
        self._has_base64 = True

    # Contents.

    async def write(self, path: str, data: bytes, mode: str = "") -> None:
        """Write a file, see `TargetFiles`, with permission bits in octal if any are given."""
        self.check_name(path)
        if len(data) <= SMALL and self._has_base64:
            text = base64.b64encode(data).decode()
            result = await self.runner.run(call_at(path, decoding(path, text, mode)))
            if result.exit_code != NO_BASE64:
                self.raise_for("write", path, result.exit_code, result.output)
                return
            self._has_base64 = False

        async def feed(write: Write) -> None:
            for begin in range(0, len(data), PIECE):
                await write(data[begin : begin + PIECE])

        await self._stream_in(path, mode, len(data), feed)

    async def put(self, local: Path, remote: str) -> None:
        """Copy a file from here, see `TargetFiles`."""
        self.check_name(remote)
        with await in_worker(open_regular, local) as file:
            status = os.fstat(file.fileno())
            mode = f"{stat.S_IMODE(status.st_mode) & PERMISSIONS:o}"
            async with self.progress.counting(f"uploading {remote}", status.st_size) as count:

                def produce(send: Callable[[bytes], None]) -> None:
                    for piece in read_pieces(local, file, status.st_size):
                        send(piece)
                        count.add(len(piece))
                    if count.done < status.st_size:
                        raise TerminalError(f"cannot write {remote}: the file here became shorter while it was read")

                if status.st_size:
                    await self._stream_in(remote, mode, status.st_size, partial(sent, produce))
                else:  # those of /proc say so whatever is in them
                    await self.write(remote, await in_worker(lambda: b"".join(read_pieces(local, file))), mode)

    async def _stream_in(self, path: str, mode: str, size: int, feed: Callable[[Write], Awaitable[object]]) -> None:
        # By its size, because the end of the stream would be the end of the shell, and a new one takes its time.
        command = call_at(path, placing(path, taking(size), mode, size))
        words = Words()
        code = await self.runner.run_fed(command, Where.ATTACHED, words, feed)
        self.raise_for("write", path, await self.explained(path, "write", code), words.text)

    def check_name(self, path: str) -> None:
        """Raise TargetIsADirectoryError if a path can only be a directory's."""
        if means_directory(path):
            raise target_error(errno.EISDIR, "write", path, self.backend)

    async def read(self, path: str, limit: int | None = None) -> bytes:
        """Return a file, see `TargetFiles`."""
        output = Collected()
        code = await self.runner.run_into(call_at(path, printing(path, limit), separate=True), output.on)
        self.raise_for("read", path, code, output.text)
        return bytes(output.data)

    async def get(self, remote: str, local: Path) -> None:
        """Copy a file to here, see `TargetFiles`."""

        def take(arriving: Arriving) -> None:
            line = arriving.read_line()
            if not line:
                self.raise_for("read", remote, arriving.code, arriving.text)
            found = _MODE_AND_SIZE.fullmatch(line)
            mode, size = found.groups() if found else (None, None)  # a target may have no `stat -c`
            count.total = int(size) if size else None

            def write(file: BinaryIO) -> None:
                arriving.copy(file, count)
                self.raise_for("read", remote, arriving.code, arriving.text)

            replace_file(local, write, int(mode, 8) & PERMISSIONS if mode else None)

        command = call_at(remote, describing(remote), separate=True)
        async with self.progress.counting(f"downloading {remote}") as count:
            await received(lambda arriving: self.runner.run_into(command, arriving.on), take)

    # Directories.

    async def put_dir(self, local: Path, remote: str, *, skip_unchanged: bool) -> None:
        """Copy a directory from here, see `TargetFiles`."""
        await self._directories().put(local, remote, skip_unchanged)

    async def get_dir(self, remote: str, local: Path, *, skip_unchanged: bool) -> None:
        """Copy a directory to here, see `TargetFiles`."""
        await self._directories().get(remote, local, skip_unchanged)

    def _directories(self) -> Directories:
        from environments.shell.directories import Directories  # few need it, and tarfile takes its time

        return Directories(self)

    # Entries.

    async def stat(self, path: str, *, follow: bool) -> FileStatus:
        """Return what is at a path, see `TargetFiles`."""
        result = await self._done("look at", path, statting(path, follow=follow))
        fields, _, link = os.fsdecode(result.output_bytes or b"").partition("\n")
        return self._status(path, fields.split(" "), link.removesuffix("\n") or None)

    async def exists(self, path: str) -> bool:
        """Return whether something is at a path, see `TargetFiles`."""
        result = await self._run(path, existing(path))
        if error_number(result.exit_code) in NOTHING_THERE:
            return False
        self.raise_for("look at", path, result.exit_code, result.stderr or "")
        return True

    async def entries(self, path: str) -> list[FileStatus]:
        """Return what is in a directory, see `TargetFiles`."""
        mark, output = os.urandom(16).hex(), Collected()
        code = await self.runner.run_into(call_at(path, listing_entries(path, mark), separate=True), output.on)
        if code == NO_STAT:
            raise self.failure("list", path, f"the target needs `find` and `stat -c` for that: {output.text.strip()}")
        self.raise_for("list", path, code, output.text)
        return sorted(self._entries(path, bytes(output.data), mark.encode()), key=lambda entry: entry.name)

    def _entries(self, path: str, data: bytes, mark: bytes) -> Iterator[FileStatus]:
        for record in data.split(mark + b" ")[1:]:
            *fields, names = os.fsdecode(record.removesuffix(b"\n")).split(" ", 5)
            name, _, shown = names.partition("//")
            yield self._status(posixpath.join(path, name[2:]), fields, _target_of(name, shown))

    def _status(self, path: str, fields: list[str], link: str | None) -> FileStatus:
        try:
            mode, size, modified, uid, gid = fields
            return FileStatus.made_of(path, int(mode, 16), int(size), int(modified), int(uid), int(gid), link)
        except ValueError:
            raise self.failure("look at", path, f"its `stat` says {' '.join(fields)!r:.200}") from None

    async def mkdir(self, path: str, *, parents: bool, exist_ok: bool, mode: int | None) -> None:
        """Make a directory, see `TargetFiles`."""
        await self._done("make directory", path, making(path, parents=parents, exist_ok=exist_ok, mode=mode))

    async def remove(self, path: str, *, recursive: bool, missing_ok: bool) -> None:
        """Remove what is at a path, see `TargetFiles`."""
        result = await self._run(path, removing(path, recursive=recursive))
        if result.exit_code == THE_ROOT:
            raise self.failure("remove", path, "it is the root directory")
        try:
            self.raise_for("remove", path, result.exit_code, result.stderr or "")
        except TargetFileNotFoundError:
            if not missing_ok:
                raise

    async def _done(self, verb: str, path: str, text: str) -> CommandResult:
        result = await self._run(path, text)
        self.raise_for(verb, path, result.exit_code, result.stderr or "")
        return result

    async def _run(self, path: str, text: str) -> CommandResult:
        return await self.runner.run(call_at(path, text, separate=True)._replace(binary=True))

    # Errors.

    async def explained(self, path: str, purpose: str, code: int) -> int:
        """Return the exit code of a command that was sent an input.

        It may end while it is sent more, and a stream that breaks can take the code along. Then the target is asked
        again what is in the way.
        """
        if code and not error_number(code):
            return (await self.runner.run(call_at(path, explaining(path, purpose)))).exit_code or code
        return code

    def raise_for(self, verb: str, path: str, exit_code: int, why: str) -> None:
        """Raise the error that a command's exit code and its words stand for, if any."""
        if exit_code != 0:
            check_scope()
            said, number = why.strip(), error_number(exit_code)
            raise target_error(number, verb, path, self.backend, said if said or number else f"exit code {exit_code}")

    def failure(self, verb: str, path: str, why: str) -> TerminalError:
        """Return the error for a path, with a reason."""
        return target_error(0, verb, path, self.backend, why)


def _target_of(name: str, shown: str) -> str | None:
    """Return what a link points to, from what `stat` shows of it: `name -> target`, or each of them in quotes."""
    if shown.startswith(f"'{name}' -> '"):
        return shown[len(name) + 7 : -1]
    return shown[len(name) + 4 :] if shown.startswith(f"{name} -> ") else None

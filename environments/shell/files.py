"""Files and directory entries of a target, accessed through its shells alone.

A small file travels in one command of a warm shell: as text printed by a builtin, or as base64. A large file, or a file
for a target without `base64`, is streamed unchanged. Each is written beside its place and renamed.
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

from environments.cancellation import check_scope, in_no_scope
from environments.errors import NOTHING_THERE, TargetFileNotFoundError, TerminalError, target_error
from environments.files import ANY, BrokenCondition, FileStatus, TargetFiles, WriteConditionError, WriteConditions
from environments.local_files import PERMISSIONS, PIECE, open_regular, read_pieces, replace_file
from environments.loop import in_worker
from environments.options import means_directory
from environments.progress import Reporter
from environments.result import CommandResult
from environments.shell.dialect.files import (
    EXPLAIN,
    FUNCTIONS,
    NO_STAT,
    SMALL,
    THE_ROOT,
    describing,
    directory_path,
    error_number,
    existing,
    explaining,
    listing_entries,
    making,
    printing,
    removing,
    statting,
)
from environments.shell.dialect.writing import (
    CHANGED,
    EXISTS,
    HAS_SED,
    IS_CRLF,
    LAST_FAILED,
    NO_SED,
    NOT_HERE,
    REFUSED,
    as_text,
    checking,
    decoding,
    deleting,
    moving,
    needed,
    placing,
    reading_input,
    replacing,
    writing_text,
    writing_text_quickly,
)
from environments.shell.transfer import (
    CollectedOutput,
    OutputHead,
    ReadableOutput,
    Runner,
    call_at,
    run_producer,
    run_reader,
)
from environments.write_guard import WriteGuard

if TYPE_CHECKING:
    from environments.shell.directories import Directories
    from environments.shell.oneshot import Write

_CONDITIONS: dict[int, BrokenCondition] = {CHANGED: "changed", IS_CRLF: "crlf", EXISTS: "exists"}
_MODE_AND_SIZE = re.compile(rb"([0-7]+) ([0-9]+)\n")


class ShellFiles(TargetFiles):
    """Files of a target, accessed through shells.

    Args:
        runner: Runs commands in the target.
        backend: The backend's name, for errors.
        progress: Receives the progress of transfers.
    """

    def __init__(self, runner: Runner, backend: str, progress: Reporter | None = None) -> None:
        self.runner = runner
        self.backend = backend
        self.progress = progress or Reporter(backend)
        self._has_printf = self._has_base64 = True
        self._has_sed: bool | None = None

    # Contents.

    async def write(self, path: str, data: bytes, mode: str = "", conditions: WriteConditions = ANY) -> bool:
        self.check_name(path)
        text = as_text(data)
        if text is not None and self._has_printf:
            result = await self._write_text(path, text, mode, conditions)
            if result.exit_code != NOT_HERE:
                return await self.written(path, conditions, result.exit_code, result.output)
            self._has_printf = False
        if len(data) <= SMALL and self._has_base64:
            encoded = base64.b64encode(data).decode()
            result = await self._run_on(path, decoding(path, encoded, mode, conditions), conditions.guard)
            if result.exit_code != NOT_HERE:
                return await self.written(path, conditions, result.exit_code, result.output)
            self._has_base64 = False
        if conditions != ANY:  # checked before any byte is streamed
            await self.check(path, conditions)

        async def feed(write: Write) -> None:
            for begin in range(0, len(data), PIECE):
                await write(data[begin : begin + PIECE])

        return await self._stream_in(path, mode, len(data), feed, conditions)

    async def _write_text(self, path: str, text: str, mode: str, conditions: WriteConditions) -> CommandResult:
        part = os.urandom(6).hex()
        result = await self._run_on(
            path, writing_text_quickly(path, text, mode, conditions, part, self._has_sed), conditions.guard
        )
        if result.exit_code in LAST_FAILED:
            self._has_sed = None
            return await self._run_on(path, writing_text(path, text, mode, conditions, part), conditions.guard)
        if result.exit_code == 0 and (said := result.output.strip()) in (HAS_SED, NO_SED):
            self._has_sed = said == HAS_SED
        return result

    async def replace(self, path: str, old: str, new: str, guard: WriteGuard) -> bytes | None:
        if not self._has_sed or any("\0" in each or "\r" in each or len(each) > SMALL for each in (old, new)):
            return None
        command = call_at(path, replacing(path, old, new, guard), needed(guard))
        result = await self.runner.run(command._replace(binary=True, max_output_bytes=2 * SMALL))
        if result.exit_code == REFUSED:
            await self.written(path, WriteConditions(guard), result.exit_code, result.output)
        data = result.output_bytes or b""
        is_whole = data.count(old.encode()) == 1
        if result.interrupted or result.timed_out:
            with in_no_scope():  # the text printed the old contents before the replacement
                changed = data.replace(old.encode(), new.encode())
                if is_whole and await self.read(path) == changed:
                    await self.write(path, data, conditions=WriteConditions(guard, expected=changed))
            raise self.failure("write", path, "the command was ended; the file is unchanged")
        return data if is_whole and result.exit_code == 0 else None

    async def _run_on(self, path: str, text: str, guard: WriteGuard | None) -> CommandResult:
        return await self.runner.run(call_at(path, text, needed(guard)))

    async def check(self, path: str, conditions: WriteConditions) -> None:
        result = await self._run_on(path, checking(path, conditions), conditions.guard)
        await self.written(path, conditions, result.exit_code, result.output)

    async def move(self, source: str, target: str, guard: WriteGuard) -> None:
        result = await self._run_on(source, moving(source, target, guard), guard)
        await self.written(target, WriteConditions(guard), result.exit_code, result.output)

    async def delete(self, path: str, guard: WriteGuard) -> None:
        result = await self._run_on(path, deleting(path, guard), guard)
        await self.written(path, WriteConditions(guard), result.exit_code, result.output)

    async def written(self, path: str, conditions: WriteConditions, code: int, said: str) -> bool:
        """Parse the result of a write. Returns True if the file is new.

        Raises:
            WriteConditionError: The conditions do not hold.
            TerminalError: The file could not be written.
        """
        if code == REFUSED and conditions.guard:
            kind, _, number = said.strip().partition(" ")
            raise WriteConditionError(
                "refused", conditions.guard.refusal(kind, int(number) if number.isdecimal() else 0)
            )
        if code in _CONDITIONS:
            raise WriteConditionError(_CONDITIONS[code])
        self.raise_for("write", path, await self.explained(path, "write", code), said)
        return said.strip() == "new"

    async def put(self, local: Path, remote: str) -> None:
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
                        raise TerminalError(f"cannot write {remote}: the local file became shorter during the read")

                if status.st_size:
                    await self._stream_in(remote, mode, status.st_size, partial(run_producer, produce))
                else:  # files of /proc have size 0 whatever their contents
                    await self.write(remote, await in_worker(lambda: b"".join(read_pieces(local, file))), mode)

    async def _stream_in(
        self,
        path: str,
        mode: str,
        size: int,
        feed: Callable[[Write], Awaitable[object]],
        conditions: WriteConditions = ANY,
    ) -> bool:
        # By size: the end of the stream would be the end of the shell, and a new shell is slow.
        command = call_at(path, placing(path, reading_input(size), mode, size, conditions), needed(conditions.guard))
        words = OutputHead()
        code = await self.runner.run_fed(command, words, feed, size)
        return await self.written(path, conditions, code, words.text)

    def check_name(self, path: str) -> None:
        """Raise TargetIsADirectoryError if the path can only be a directory's."""
        if means_directory(path):
            raise target_error(errno.EISDIR, "write", path, self.backend)

    async def read(self, path: str, limit: int | None = None) -> bytes:
        output = CollectedOutput()
        code = await self.runner.run_into(call_at(path, printing(path, limit), separate=True), output.on)
        self.raise_for("read", path, await self.explained(path, "read", code), output.text)
        return bytes(output.data)

    async def get(self, remote: str, local: Path) -> None:
        def receive(reader: ReadableOutput) -> None:
            line = reader.read_line()
            if not line:
                self.raise_for("read", remote, reader.code, reader.text)
            found = _MODE_AND_SIZE.fullmatch(line)
            mode, size = found.groups() if found else (None, None)  # a target may have no `stat -c`
            count.total = int(size) if size else None

            def write(file: BinaryIO) -> None:
                reader.copy(file, count)
                self.raise_for("read", remote, reader.code, reader.text)

            replace_file(local, write, int(mode, 8) & PERMISSIONS if mode else None)

        async def send(reader: ReadableOutput) -> int:
            command = call_at(remote, describing(remote), separate=True)
            return await self.explained(remote, "read", await self.runner.run_into(command, reader.on))

        async with self.progress.counting(f"downloading {remote}") as count:
            await run_reader(send, receive)

    # Directories.

    async def put_dir(self, local: Path, remote: str, *, skip_unchanged: bool) -> None:
        await self._directories().put(local, remote, skip_unchanged)

    async def get_dir(self, remote: str, local: Path, *, skip_unchanged: bool) -> None:
        await self._directories().get(remote, local, skip_unchanged)

    def _directories(self) -> Directories:
        from environments.shell.directories import Directories  # few programs need it, and importing tarfile is slow

        return Directories(self)

    # Entries.

    async def stat(self, path: str, *, follow: bool) -> FileStatus:
        result = await self._run(path, statting(path, follow=follow))
        code = await self.explained(path, "look" if follow else "link", result.exit_code)
        self.raise_for("look at", path, code, result.stderr or "")
        fields, _, link = os.fsdecode(result.output_bytes or b"").partition("\n")
        return self._status(path, fields.split(" "), link.removesuffix("\n") or None)

    async def exists(self, path: str) -> bool:
        result = await self._run(path, existing(path))
        code = await self.explained(path, "look", result.exit_code)
        if error_number(code) in NOTHING_THERE:
            return False
        self.raise_for("look at", path, code, result.stderr or "")
        return True

    async def entries(self, path: str) -> list[FileStatus]:
        mark, output = os.urandom(16).hex(), CollectedOutput()
        code = await self.runner.run_into(call_at(path, listing_entries(path, mark), separate=True), output.on)
        if code == NO_STAT:
            raise self.failure("list", path, f"the target lacks `find` or `stat -c`: {output.text.strip()}")
        self.raise_for("list", path, await self.explained(path, "list", code), output.text)
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
            raise self.failure("look at", path, f"its `stat` printed {' '.join(fields)!r:.200}") from None

    async def mkdir(self, path: str, *, parents: bool, exist_ok: bool, mode: int | None) -> None:
        text = making(path, parents=parents, exist_ok=exist_ok, mode=mode)
        result = await self._run(path, text)
        code = await self.explained(directory_path(path), "mkdirs" if parents else "mkdir", result.exit_code)
        self.raise_for("make directory", path, code, result.stderr or "")

    async def remove(self, path: str, *, recursive: bool, missing_ok: bool) -> None:
        result = await self._run(path, removing(path, recursive=recursive))
        if result.exit_code == THE_ROOT:
            raise self.failure("remove", path, "it is the root directory")
        purpose = "rmtree" if recursive else "remove"
        code = await self.explained(path.rstrip("/") or "/", purpose, result.exit_code)
        try:
            self.raise_for("remove", path, code, result.stderr or "")
        except TargetFileNotFoundError:
            if not missing_ok:
                raise

    async def _run(self, path: str, text: str) -> CommandResult:
        return await self.runner.run(call_at(path, text, separate=True)._replace(binary=True))

    # Errors.

    async def explained(self, path: str, purpose: str, code: int) -> int:
        """Return a command's exit code, or the exit code of a second command that finds the cause of a failure.

        A command with an input may have ended early, and a broken stream can lose the exit code.
        """
        if code and not error_number(code):
            check_scope()
            command = call_at(path, explaining(path, purpose), (FUNCTIONS, EXPLAIN))
            return (await self.runner.run(command)).exit_code or code
        return code

    def raise_for(self, verb: str, path: str, exit_code: int, why: str) -> None:
        """Raise the error for a failed command's exit code and output."""
        if exit_code != 0:
            check_scope()
            said, number = why.strip(), error_number(exit_code)
            raise target_error(number, verb, path, self.backend, said if said or number else f"exit code {exit_code}")

    def failure(self, verb: str, path: str, why: str) -> TerminalError:
        """Return the error for a path, with a reason."""
        return target_error(0, verb, path, self.backend, why)


def _target_of(name: str, shown: str) -> str | None:
    """Return a link's target, parsed from `stat`: `name -> target`, or both in quotes."""
    if shown.startswith(f"'{name}' -> '"):
        return shown[len(name) + 7 : -1]
    return shown[len(name) + 4 :] if shown.startswith(f"{name} -> ") else None

"""Looking at, making and removing files and directories through the shell, with one command each."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator

from environments.errors import NOTHING_THERE, TargetFileNotFoundError
from environments.file_status import FileStatus
from environments.result import CommandResult
from environments.shell.dialect.entries import (
    NO_STAT,
    THE_ROOT,
    existing,
    listing_entries,
    making,
    removing,
    statting,
)
from environments.shell.dialect.file_causes import error_number
from environments.shell.transfer import BytesSink, Transfer, call_at


class Entries(Transfer):
    """The entries of a target's directories, see `Transfer`."""

    def stat(self, path: str, *, follow: bool) -> FileStatus:
        """Return what is at a path, see `TargetFiles.stat`."""
        result = self._done("look at", path, statting(path, follow=follow))
        fields, _, link = os.fsdecode(result.output_bytes or b"").partition("\n")
        return self._status(path, fields.split(" "), link.removesuffix("\n") or None)

    def exists(self, path: str) -> bool:
        """Return whether something is at a path, see `TargetFiles.exists`."""
        result = self._run(path, existing(path))
        if error_number(result.exit_code) in NOTHING_THERE:
            return False
        self._raise_for("look at", path, result.exit_code, result.stderr or "")
        return True

    def listed(self, path: str) -> list[FileStatus]:
        """Return what is in a directory, see `TargetFiles.list_dir`."""
        mark, data = os.urandom(16).hex(), bytearray()
        sink = BytesSink(data.extend)
        code = self._runner.run_into(call_at(path, listing_entries(path, mark)), sink)
        why = sink.error.text().text
        if code == NO_STAT:
            raise self._failure("list", path, f"the target needs `find` and `stat -c` for that: {why.strip()}")
        self._raise_for("list", path, code, why)
        return sorted(self._entries(path, bytes(data), mark.encode()), key=lambda entry: entry.name)

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
            raise self._failure("look at", path, f"its `stat` says {' '.join(fields)!r:.200}") from None

    def make(self, path: str, *, parents: bool, exist_ok: bool, mode: int | None) -> None:
        """Make a directory, see `TargetFiles.mkdir`."""
        self._done("make directory", path, making(path, parents=parents, exist_ok=exist_ok, mode=mode))

    def remove(self, path: str, *, recursive: bool, missing_ok: bool) -> None:
        """Remove what is at a path, see `TargetFiles.remove`."""
        result = self._run(path, removing(path, recursive=recursive))
        if result.exit_code == THE_ROOT:
            raise self._failure("remove", path, "it is the root directory")
        try:
            self._raise_for("remove", path, result.exit_code, result.stderr or "")
        except TargetFileNotFoundError:
            if not missing_ok:
                raise

    def _done(self, verb: str, path: str, text: str) -> CommandResult:
        result = self._run(path, text)
        self._raise_for(verb, path, result.exit_code, result.stderr or "")
        return result

    def _run(self, path: str, text: str) -> CommandResult:
        return self._runner.run(call_at(path, text, separate=True)._replace(binary=True))


def _target_of(name: str, shown: str) -> str | None:
    """Return what a link points to, from what `stat` shows of it: `name -> target`, or each of them in quotes."""
    if shown.startswith(f"'{name}' -> '"):
        return shown[len(name) + 7 : -1]
    return shown[len(name) + 4 :] if shown.startswith(f"{name} -> ") else None

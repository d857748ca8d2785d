"""Moving files through the shell alone, for targets that offer nothing better.

What is small travels as base64 in one command of a warm shell. What is large, or goes to a target without `base64`,
is streamed as it is. Either way it is written beside its place and renamed into it.
"""

from __future__ import annotations

import base64
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from environments.arguments import means_directory
from environments.atomic_file import PERMISSIONS, open_regular, read_pieces, replace_file
from environments.errors import TerminalError, target_error
from environments.process import Background
from environments.progress import Reporter
from environments.shell.dialect.files import NO_BASE64, decoding, placing, reading
from environments.shell.transfer import BytesSink, Transfer, call_at

if TYPE_CHECKING:
    from pathlib import Path

    from environments.shell.transfer import Runner

SMALL = 16 * 1024
"""Bytes up to which base64 in a command is quicker than a stream of its own."""

_MODE_AND_SIZE = re.compile(rb"([0-7]+) ([0-9]+)\s*")


class ShellFiles(Transfer):
    """Files of a target, see `Transfer`."""

    def __init__(self, runner: Runner, backend: str, progress: Reporter | None = None) -> None:
        super().__init__(runner, backend, progress)
        self._has_base64 = True

    def write(self, path: str, data: bytes, mode: str = "") -> None:
        """Write a file, see `TargetFiles.write_bytes`, with permission bits in octal if any are given."""
        self.check_name(path)
        if len(data) <= SMALL and self._has_base64:
            text = base64.b64encode(data).decode()
            result = self._runner.run(call_at(path, decoding(path, text, mode)))
            if result.exit_code != NO_BASE64:
                self._raise_for("write", path, result.exit_code, result.output)
                return
            self._has_base64 = False
        self._stream_in(path, mode, len(data), iter([data]))

    def put(self, local: Path, remote: str) -> None:
        """Copy a file from here, see `TargetFiles.put_file`."""
        self.check_name(remote)
        with open_regular(local) as file:
            status = os.fstat(file.fileno())
            mode = f"{stat.S_IMODE(status.st_mode) & PERMISSIONS:o}"
            with self._progress.counting(f"uploading {remote}", status.st_size) as count:
                self._stream_in(remote, mode, status.st_size, count.through(read_pieces(local, file)))

    def _stream_in(self, path: str, mode: str, size: int, pieces: Iterator[bytes]) -> None:
        # By its size, because the end of the stream would be the end of the shell, and a new one takes its time.
        call = call_at(path, placing(path, f"head -c {size}", mode, size))
        with self._started(call, Background(stdin="consumed")) as process:
            try:
                for piece in pieces:
                    process.write(piece[:size])
                    size -= len(piece[:size])
            except BrokenPipeError:
                size = 0  # its exit code and its words say why
            if size:
                raise TerminalError(f"cannot write {path}: the file here became shorter while it was read")
            code = self._sent(path, "write", process)
        self._raise_for("write", path, code, process.read())

    def check_name(self, path: str) -> None:
        """Raise TargetIsADirectoryError if a path can only be a directory's."""
        if means_directory(path):
            raise target_error(errno.EISDIR, "write", path, self._backend)

    def read(self, path: str, limit: int | None = None) -> bytes:
        """Return a file, see `TargetFiles.read_bytes`."""
        data = bytearray()
        self._stream_out(path, 'cat -- "$path"' if limit is None else f'head -c {limit} -- "$path"', data.extend)
        return bytes(data)

    def get(self, remote: str, local: Path) -> None:
        """Copy a file to here, see `TargetFiles.get_file`."""
        said = bytearray()
        self._stream_out(remote, 'stat -Lc "%a %s" -- "$path"', said.extend)
        mode, size = found.groups() if (found := _MODE_AND_SIZE.fullmatch(said)) else (None, None)
        with self._progress.counting(f"downloading {remote}", int(size) if size else None) as count:
            replace_file(
                local,
                lambda file: self._copy_into(count.into(file), remote),
                int(mode, 8) & PERMISSIONS if mode else None,
            )

    def _copy_into(self, file: BinaryIO, remote: str) -> None:
        self._stream_out(remote, 'cat -- "$path"', file.write)

    def _stream_out(self, path: str, command: str, take: Callable[[bytes], object]) -> None:
        sink = BytesSink(take)
        code = self._runner.run_into(call_at(path, reading(path, command)), sink)
        self._raise_for("read", path, code, sink.error.text().text)

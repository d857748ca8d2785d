"""Moving files through the shell alone, for targets that offer nothing better.

What is small travels as base64 in one command of a warm shell. What is large, or goes to a target without `base64`,
is streamed as it is. Either way it is written beside its place and renamed into it.
"""

from __future__ import annotations

import base64
import os
import shlex
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from environments.atomic_file import replace_file
from environments.base import Process
from environments.capture import BoundedCapture
from environments.errors import TerminalError
from environments.result import CommandResult
from environments.sink import Channel, OutputSink

SMALL = 16 * 1024
"""Bytes up to which base64 in a command is quicker than a stream of its own."""
PIECE = 1024 * 1024
"""Bytes to read from a file here at a time."""
NO_SUCH_FILE = 44
"""Exit code by which the commands below say that a file is missing."""
NO_BASE64 = 45
"""Exit code by which the command below says that the target cannot decode."""
_ERROR_LIMIT = 4096

# Set in front of each: $path. A relative path is taken from where the command runs, the session's directory.
_RESOLVE = """\
case $path in '~') path=$HOME ;; '~/'*) path=$HOME/${path#'~/'} ;; esac
case $path in /*) ;; *) path=$PWD/$path ;; esac
"""
# A link is followed, so that what it points at is replaced. The mode of a file that is there is kept.
WRITE = """\
if [ -L "$path" ]; then path=$(readlink -f -- "$path") || exit 1; fi
if [ -d "$path" ]; then echo "it is a directory" >&2; exit 1; fi
[ -d "${path%/*}/" ] || mkdir -p -- "${path%/*}/" || exit 1
part=${path%/*}/.hermes-$unique
: >"$part" || exit 1
if [ -n "$mode" ]; then chmod "$mode" "$part"
elif [ -e "$path" ]; then
  chmod "$(stat -c %a -- "$path")" "$part"; chown "$(stat -c %u:%g -- "$path")" "$part" 2>/dev/null
fi
"""
FINISH = ' >"$part" && mv -f -- "$part" "$path" || { rm -f -- "$part"; exit 1; }'
READ = f"""\
if [ ! -e "$path" ]; then exit {NO_SUCH_FILE}; fi
if [ -d "$path" ]; then echo "it is a directory" >&2; exit 1; fi
"""


class Runner(Protocol):
    """What runs commands where the files are, each beside all others."""

    def execute_oneshot(self, command: str, *, stderr: Literal["merge", "separate"] = "merge") -> CommandResult:
        """Run a command and return what came of it, see `BaseEnvironment`."""

    def start(self, command: str, *, stdin: Literal["consumed"]) -> Process:
        """Start a command that reads all that is written to it, see `BaseEnvironment`."""

    def run_into(self, command: str, sink: OutputSink) -> int:
        """Run a command, without a limit of time or of output, and return its exit code."""


class ShellFiles:
    """Files of a target, by way of its shells.

    Args:
        runner: Runs commands there.
        backend: The backend's name, for errors.
    """

    def __init__(self, runner: Runner, backend: str) -> None:
        self._runner = runner
        self._backend = backend
        self._has_base64 = True

    def write(self, path: str, data: bytes) -> None:
        """Write a file, see `BaseEnvironment.write_bytes`."""
        head = self._head(path) + WRITE
        if len(data) <= SMALL and self._has_base64:
            text = base64.b64encode(data).decode()
            check = f"command -v base64 >/dev/null || exit {NO_BASE64}\n"
            result = self._runner.execute_oneshot(f"{check}{head}echo {text} | base64 -d{FINISH}")
            if result.exit_code != NO_BASE64:
                self._raise_for("write", path, result.exit_code, result.output)
                return
            self._has_base64 = False
        self._stream_in(path, head, len(data), iter([data]))

    def put(self, local: Path, remote: str) -> None:
        """Copy a file from here, see `BaseEnvironment.put_file`."""
        with local.open("rb") as file:
            status = os.fstat(file.fileno())
            head = self._head(remote, f"{stat.S_IMODE(status.st_mode):o}") + WRITE
            self._stream_in(remote, head, status.st_size, iter(lambda: file.read(PIECE), b""))

    def _stream_in(self, path: str, head: str, size: int, pieces: Iterator[bytes]) -> None:
        # By its size, because the end of the stream would be the end of the shell, and a new one takes its time.
        process = self._runner.start(f"{head}head -c {size}{FINISH}", stdin="consumed")
        try:
            try:
                for piece in pieces:
                    process.write(piece[:size])
                    size -= len(piece[:size])
            except BrokenPipeError:
                size = 0  # its exit code and its words say why
            if size:
                raise TerminalError(f"cannot write {path}: the file here became shorter while it was read")
            code = process.wait()
        finally:
            process.kill()
        self._raise_for("write", path, code or 0, process.read())

    def read(self, path: str) -> bytes:
        """Return a file, see `BaseEnvironment.read_bytes`."""
        data = bytearray()
        self._stream_out(path, "cat -- ", data.extend)
        return bytes(data)

    def get(self, remote: str, local: Path) -> None:
        """Copy a file to here, see `BaseEnvironment.get_file`."""
        mode = bytearray()
        self._stream_out(remote, "stat -c %a -- ", mode.extend)
        replace_file(
            local,
            lambda file: self._copy_into(file, remote),
            int(mode, 8) if mode.strip().isdigit() else None,
        )

    def _copy_into(self, file: BinaryIO, remote: str) -> None:
        self._stream_out(remote, "cat -- ", file.write)

    def _stream_out(self, path: str, command: str, take: Callable[[bytes], object]) -> None:
        sink = _Bytes(take)
        code = self._runner.run_into(f'{self._head(path)}{READ}{command}"$path"', sink)
        self._raise_for("read", path, code, sink.error.text().text)

    @staticmethod
    def _head(path: str, mode: str = "") -> str:
        return f"path={shlex.quote(path)} mode={mode} unique={os.urandom(6).hex()}\n{_RESOLVE}"

    def _raise_for(self, verb: str, path: str, exit_code: int, why: str) -> None:
        if exit_code == NO_SUCH_FILE:
            raise FileNotFoundError(2, f"no such file on backend {self._backend!r}", path)
        if exit_code != 0:
            reason = why.strip() or f"exit code {exit_code}"
            raise TerminalError(f"cannot {verb} {path} on backend {self._backend!r}: {reason}")


class _Bytes:
    """Hands on standard output as it comes, and keeps the words of standard error."""

    separate = True

    def __init__(self, take: Callable[[bytes], object]) -> None:
        self._take = take
        self.error = BoundedCapture(_ERROR_LIMIT)

    def add(self, channel: Channel, data: bytes) -> None:
        if channel is Channel.STDOUT:
            self._take(data)
        else:
            self.error.add(data)

    def freeze(self) -> None:
        """Nothing is ended that is still wanted."""

"""Copies files by the rules of cp(1), and between the target and a stream."""

from __future__ import annotations

import os
import posixpath
import select
import shlex
import stat
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from environments.base import BaseEnvironment
from environments.cancellation import check_scope, on_scope_cancel
from environments.errors import TargetFileNotFoundError, TerminalError
from environments.files import FileStatus
from environments.output import BoundedCapture, Channel
from environments.progress import Counter
from hermes_env.cli.errors import WrongUsageError
from hermes_env.cli.streams import PIECE, LiveOutput

MARK = ":"
"""The first character of a path of the target."""
STREAM = "-"
"""Standard input, or standard output."""
_NAMELESS = ("", ".", "..")
"""Last parts of a path that are not a directory's name."""
_POLL = 100
"""Milliseconds between checks for a cancelled copy."""
_LONGEST_REASON = 4096


@dataclass(frozen=True, slots=True)
class CopyRoute:
    """The source and the destination of a copy."""

    source: str
    """A path, or `-`."""
    destination: str
    is_upload: bool
    """True if the destination is in the target; False if the source is."""

    @property
    def is_streamed(self) -> bool:
        """True if the local side is standard input or standard output."""
        return (self.source if self.is_upload else self.destination) == STREAM


def route_of(source: str, destination: str) -> CopyRoute:
    """Return the route for the two arguments of `cp`.

    Raises:
        WrongUsageError: Both or none are a path of the target, or a path is empty.
    """
    there = [word.startswith(MARK) for word in (source, destination)]
    if all(there):
        copy = shlex.join(["cp", "-R", _path(source), _path(destination)])
        raise WrongUsageError(f"cp {source} {destination}: both are in the target; use `hermes-env exec -- {copy}`")
    if not (source and destination):
        raise WrongUsageError("cp: a path is empty; write . for this directory")
    if not any(there):
        raise WrongUsageError(
            f"cp {source} {destination}: both are on this machine; write {MARK} before the path that is in the target, "
            f"such as {MARK}/srv/data"
        )
    if there[1]:
        return CopyRoute(source, _path(destination), is_upload=True)
    return CopyRoute(_path(source), destination, is_upload=False)


def _path(word: str) -> str:
    """Return a path of the target. A mark alone is the session's directory."""
    return word.removeprefix(MARK) or "."


def place_in(directory: str, source: str) -> str:
    """Return the path of a source in a directory: under the source's name, or for `folder/.` the directory itself."""
    name = posixpath.basename(source.rstrip("/"))
    return directory if name in _NAMELESS or source.rstrip("/") == "~" else posixpath.join(directory, name)


def upload(environment: BaseEnvironment, source: str, destination: str) -> None:
    """Copy a file or a directory of this machine to the target.

    Args:
        environment: The environment.
        source: The local path.
        destination: The path in the target. For a directory, and for a file with a slash at the end, the copy is placed
            inside.

    Raises:
        TerminalError: The copy failed, or is incomplete.
    """
    try:
        is_directory = stat.S_ISDIR(os.stat(source).st_mode)  # noqa: PTH116  # a Path drops a slash at the end
    except OSError as error:
        raise TerminalError(f"cannot read {source}: {error.strerror or error}") from error
    there = _status_there(environment, destination)
    if (there and there.is_dir) or (destination.endswith("/") and not is_directory):
        destination = place_in(destination, source)
    copy = environment.put_dir if is_directory else environment.put_file
    try:
        copy(source, destination)
    except TerminalError:
        raise
    except OSError as error:
        raise TerminalError(f"cannot copy {source}: {error.strerror or error}") from error


def download(environment: BaseEnvironment, source: str, destination: str) -> None:
    """Copy a file or a directory of the target to this machine. Arguments and errors are as for `upload`."""
    is_directory = environment.stat(source).is_dir
    if Path(destination).is_dir() or (destination.endswith("/") and not is_directory):
        destination = place_in(destination, source)
    copy = environment.get_dir if is_directory else environment.get_file
    try:
        copy(source, destination)
    except TerminalError:
        raise
    except OSError as error:
        raise TerminalError(f"cannot write {destination}: {error.strerror or error}") from error


def _status_there(environment: BaseEnvironment, path: str) -> FileStatus | None:
    """Return the status of a path of the target; None if the path does not exist."""
    try:
        return environment.stat(path)
    except TargetFileNotFoundError:
        return None


def upload_stream(environment: BaseEnvironment, source: int, destination: str) -> None:
    """Read a file descriptor to the end, then write a file of the target in one step.

    Args:
        environment: The environment.
        source: The file descriptor.
        destination: The file. An existing file keeps its permissions.

    Raises:
        TerminalError: Reading or writing failed.
        CallCancelledError: The scope of the current thread was cancelled.
    """
    there = _status_there(environment, destination)
    if (there and there.is_dir) or destination.endswith("/"):
        raise TerminalError(f"cannot write standard input to {destination}: it is a directory; name a file in it")
    # Spooled to a file: the size, and whether the input is complete, are known only at the end.
    with tempfile.TemporaryDirectory(prefix="hermes-cp-") as folder:
        spool = Path(folder, "input")
        with spool.open("wb") as file:
            _spool(source, file)
        if there:
            spool.chmod(there.mode)
        environment.put_file(spool, destination)


def _spool(source: int, file: BinaryIO) -> None:
    ready = select.poll()
    ready.register(source, select.POLLIN)
    while True:
        check_scope()
        if not ready.poll(_POLL):
            continue
        try:
            data = os.read(source, PIECE)
        except BlockingIOError:  # another program that shares the input was faster
            continue
        except OSError as error:
            raise TerminalError(f"cannot read standard input: {error.strerror}") from error
        if not data:
            return
        try:
            file.write(data)
        except OSError as error:
            raise TerminalError(f"cannot keep standard input in {file.name}: {error.strerror}") from error


def download_stream(environment: BaseEnvironment, source: str, output: LiveOutput) -> None:
    """Stream a file of the target to standard output.

    Args:
        environment: The environment.
        source: The file.
        output: Standard output.

    Raises:
        TerminalError: Reading or writing failed.
        CallCancelledError: The scope of the current thread was cancelled.
    """
    status = environment.stat(source)
    if status.is_dir:
        raise TerminalError(
            f"cannot write {source} to standard output: it is a directory; use "
            f"`hermes-env exec -- tar -C {shlex.quote(source)} -c .`"
        )
    if not status.is_file:
        raise TerminalError(f"cannot read {source}: it is not a regular file")
    # On a terminal a progress bar would be mixed with the output.
    if sys.stdout.isatty():
        _stream(environment, source, _StreamSink(output, None))
        return
    progress, what = environment.progress, f"downloading {source}"
    count = Counter(progress, what, status.size)
    progress.report_now(what, 0, status.size)
    _stream(environment, source, _StreamSink(output, count))
    progress.report_now(what, count.done, count.done, complete=True)


def _stream(environment: BaseEnvironment, source: str, sink: _StreamSink) -> None:
    over = threading.Event()
    process = environment.internal.start(f"cat -- {_word(source)}", stdin="none", sink=sink)
    process.add_done_callback(lambda _: over.set())
    try:
        with on_scope_cancel(over.set):
            over.wait()
        check_scope()
        code = process.poll()
    finally:
        sink.output.freeze()
        process.kill()
    if code:
        raise TerminalError(f"cannot read {source}: {sink.reason.text().text.strip() or f'exit code {code}'}")


def _word(path: str) -> str:
    """Return a path as a word of shell text; a leading tilde stays unquoted."""
    home, slash, rest = path.partition("/")
    return f"~{slash}{shlex.quote(rest) if rest else ''}" if home == "~" else shlex.quote(path)


class _StreamSink:
    """Writes standard output to a stream, and keeps standard error as the reason for a failure. An `OutputSink`."""

    separate = True

    def __init__(self, output: LiveOutput, count: Counter | None) -> None:
        self.output = output
        self.reason = BoundedCapture(_LONGEST_REASON)
        self._count = count

    def add(self, channel: Channel, data: bytes) -> None:
        if channel is Channel.STDERR:
            self.reason.add(data)
        else:
            self.output.add(channel, data)
            if self._count:
                self._count.add(len(data))

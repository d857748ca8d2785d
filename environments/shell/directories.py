"""Moving whole directories as one stream of `tar`."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from environments.atomic_file import PERMISSIONS, PIECE, told_within
from environments.cancellation import check_scope, in_no_scope
from environments.errors import CallCancelledError, TerminalError
from environments.process import Background
from environments.progress import Counter
from environments.shell.dialect.directories import NO_TAR, dropping, listing, looking, packing, unpacking
from environments.shell.packing import Begun, Files, archive, files_in, folders_in, joined, whole_seconds
from environments.shell.transfer import BytesSink, Transfer, call_at
from environments.shell.unpacking import unpack
from environments.sink import Channel

if TYPE_CHECKING:
    from pathlib import Path

    from environments.process import Process

WAITING = 4 * 1024 * 1024
"""Bytes of a stream that may wait to be unpacked."""
LONGEST_END = 16 * 1024 * 1024
"""Bytes that may follow on the end of an archive. tar fills up its last block."""
IN_FLIGHT = 4000
"""Files that may be on their way to a tar, or in it, when a transfer is cancelled."""
_LOOK_AGAIN = 0.05
_SIMPLE = re.compile(r"[^\s\\*?\[]+")
"""Names that are themselves in whatever list of names a tar takes."""


class Directories(Transfer):
    """Directories of a target, moved by its `tar`, see `Transfer`."""

    def put(self, local: Path, remote: str, skip_unchanged: bool) -> None:
        """Copy a directory from here, see `BaseEnvironment.put_dir`."""
        if not local.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(local))
        there = self._listed(remote) if skip_unchanged else {}
        top, folders = local.stat(), folders_in(local)
        text = unpacking(remote, folders, top.st_mode & PERMISSIONS, whole_seconds(top))
        begun: deque[Begun] = deque(maxlen=IN_FLIGHT)
        began = time.monotonic()
        try:
            self._send(remote, text, archive(local, folders, there, begun.append))
        except CallCancelledError:
            with in_no_scope(), contextlib.suppress(TerminalError):  # of a target that is gone, nothing is to be left
                self._remove_parts(remote, begun, time.monotonic() - began)
            raise

    def _send(self, remote: str, text: str, members: Iterator[bytes]) -> None:
        """Have a command there unpack an archive."""
        call, whole = call_at(remote, text), False
        with self._started(call, Background()) as process:
            # Of a pipe that breaks, its exit code and its words say why.
            with contextlib.suppress(BrokenPipeError), self._progress.counting(f"uploading {remote}") as count:
                for piece in count.through(joined(members)):
                    process.write(piece)
                whole = True
            process.close_stdin()
            code = self._sent(remote, "fill", process)
        self._raise_for("write", remote, code, process.read())
        if not whole:
            raise self._failure("write", remote, "its tar ended before the archive")

    def _remove_parts(self, remote: str, begun: Collection[Begun], seconds: float) -> None:
        """Remove what a tar that was ended has written of a file: that has not its size, nor a time from before."""
        sizes = dict(begun)
        if not sizes:
            return
        said = self._runner.run(call_at(remote, looking(remote, list(sizes)))._replace(binary=True)).output_bytes
        now, _, lines = os.fsdecode(said or b"").partition("\n")
        since = int(now or 0) - seconds - 1
        parts = [name for name, (size, at) in _listed(lines).items() if size < sizes.get(name, 0) and at >= since]
        if parts:
            self._runner.run(call_at(remote, dropping(remote, parts)))

    def get(self, remote: str, local: Path, skip_unchanged: bool) -> None:
        """Copy a directory to here, see `BaseEnvironment.get_dir`."""
        if local.exists() and not local.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(local))
        unchanged = self._listed(remote).items() & files_in(local).items() if skip_unchanged else ()
        same = frozenset(name for name, _ in unchanged)
        text = packing(remote, [name for name in same if _SIMPLE.fullmatch(name)])
        with self._progress.counting(f"downloading {remote}") as count:
            self._take(remote, local, same, text, count)

    def _take(self, remote: str, local: Path, same: frozenset[str], text: str, count: Counter) -> None:
        """Unpack here what a command there packs, but for files that are the same."""
        pipe = _Pipe(count)
        try:
            with self._started(call_at(remote, text), Background("none", sink=pipe)) as process, pipe.read_of(process):
                problem = unpack(pipe, local, same)
                if pipe.drain(LONGEST_END):
                    code = process.wait() or 0
                else:
                    code, problem = 0, problem or "it goes on behind its end"
        except OSError as error:
            raise told_within(error, local, "write") from error
        self._raise_for("read", remote, code, pipe.words)
        if problem:
            raise self._failure("read", remote, f"what came is no archive: {problem}")

    def _listed(self, remote: str) -> Files:
        """Return those regular files of a directory that can be told; of one that is not there, none."""
        data = bytearray()
        self._runner.run_into(call_at(remote, listing(remote)), BytesSink(data.extend))
        return _listed(os.fsdecode(bytes(data)))

    def _raise_for(self, verb: str, path: str, exit_code: int, why: str) -> None:
        if exit_code == NO_TAR:
            raise TerminalError(
                f"backend {self._backend!r}: the target has no `tar`, which moves directories; install it there"
            )
        super()._raise_for(verb, path, exit_code, why)


def _listed(lines: str) -> Files:
    """Return what lines say of size, time of change and name of files."""
    found = {}
    for line in lines.split("\n"):
        size, _, rest = line.partition(" ")
        changed, _, name = rest.partition(" ./")
        with contextlib.suppress(ValueError):
            found[name] = (int(size), int(changed))
    return found


class _Pipe:
    """Takes the output of a process in its thread, and is read as a file in another; as much as fits waits in it."""

    separate = True

    def __init__(self, count: Counter) -> None:
        self._count = count
        self._changed = threading.Condition()
        self._pieces: deque[memoryview] = deque()
        self._size = 0
        self._error = BytesSink(lambda _: None)
        self._given_up = False
        self._writer: Process | None = None

    @property
    def words(self) -> str:
        """What the process said on standard error."""
        return self._error.error.text().text

    def add(self, channel: Channel, data: bytes) -> None:
        """Take output, and wait while there is no room."""
        if channel is Channel.STDERR:
            self._error.add(channel, data)
            return
        with self._changed:
            self._changed.wait_for(lambda: self._size < WAITING or self._given_up)
            if not self._given_up:
                self._pieces.append(memoryview(data))
                self._size += len(data)
                self._changed.notify_all()
        self._count.add(len(data))

    def freeze(self) -> None:
        """Nothing is ended that is still wanted."""

    @contextlib.contextmanager
    def read_of(self, writer: Process) -> Iterator[None]:
        """Read what a process writes in the block. Behind it nobody has to wait any more."""
        self._writer = writer
        try:
            yield
        finally:
            with self._changed:
                self._given_up = True
                self._changed.notify_all()

    def read(self, size: int) -> bytes:
        """Return at most so many bytes, and none at the end.

        Raises:
            CallCancelledError: The scope of the current thread was cancelled.
        """
        while True:
            check_scope()
            ended = self._writer is None or not self._writer.running  # asked before: all that it wrote is then here
            with self._changed:
                if not self._pieces and not ended:
                    self._changed.wait(_LOOK_AGAIN)
                if self._pieces:
                    return self._take(size)
                if ended:
                    return b""

    def _take(self, size: int) -> bytes:
        piece = self._pieces.popleft()
        if len(piece) > size:
            self._pieces.appendleft(piece[size:])
        data = bytes(piece[:size])
        self._size -= len(data)
        self._changed.notify_all()
        return data

    def drain(self, limit: int) -> bool:
        """Read to the end, and return whether it came within so many bytes."""
        while limit > 0 and (data := self.read(PIECE)):
            limit -= len(data)
        return limit > 0

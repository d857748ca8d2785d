"""Moving whole directories as one stream of `tar`."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections import deque
from pathlib import Path

from environments.atomic_file import PERMISSIONS, PIECE
from environments.errors import TerminalError
from environments.process import Background, Process
from environments.progress import Counter
from environments.shell.dialect.directories import NO_TAR, listing, packing, unpacking
from environments.shell.output import UnreadOutput
from environments.shell.packing import Files, archive, files_in, folders_in, joined, whole_seconds
from environments.shell.transfer import LONGEST_REASON, BytesSink, Transfer, call_at
from environments.shell.unpacking import unpack
from environments.sink import Channel

WAITING = 4 * 1024 * 1024
"""Bytes of a stream that may wait to be unpacked."""
LONGEST_END = 16 * 1024 * 1024
"""Bytes that may follow on the end of an archive. tar fills up its last block."""
_LOOK_AGAIN = 0.05
_SIMPLE = re.compile(r"[^\s\\*?\[]+")
"""Names that are themselves in whatever list of names a tar takes."""


class Directories(Transfer):
    """Directories of a target, moved by its `tar`, see `Transfer`."""

    thing = "directory"

    def put(self, local: Path, remote: str, skip_unchanged: bool) -> None:
        """Copy a directory from here, see `BaseEnvironment.put_dir`."""
        if not local.is_dir():
            raise NotADirectoryError(20, "no such directory", str(local))
        there = self._listed(remote) if skip_unchanged else {}
        top, folders = local.stat(), folders_in(local)
        text = unpacking(remote, folders, top.st_mode & PERMISSIONS, whole_seconds(top))
        process = self._runner.start(call_at(remote, text), Background(sink=UnreadOutput(LONGEST_REASON)))
        whole = False
        try:
            # Of a pipe that breaks, its exit code and its words say why.
            with contextlib.suppress(BrokenPipeError), self._progress.counting(f"uploading {remote}") as count:
                for piece in count.through(joined(archive(local, folders, there))):
                    process.write(piece)
                whole = True
            process.close_stdin()
            code = process.wait() or 0
        finally:
            process.kill()
        self._raise_for("write", remote, code, process.read())
        if not whole:
            raise self._failure("write", remote, "its tar ended before the archive")

    def get(self, remote: str, local: Path, skip_unchanged: bool) -> None:
        """Copy a directory to here, see `BaseEnvironment.get_dir`."""
        unchanged = self._listed(remote).items() & files_in(local).items() if skip_unchanged else ()
        same = frozenset(name for name, _ in unchanged)
        text = packing(remote, [name for name in same if _SIMPLE.fullmatch(name)])
        with self._progress.counting(f"downloading {remote}") as count:
            self._take(remote, local, same, text, count)

    def _take(self, remote: str, local: Path, same: frozenset[str], text: str, count: Counter) -> None:
        """Unpack here what a command there packs, but for files that are the same."""
        pipe = _Pipe(count)
        process = self._runner.start(call_at(remote, text), Background("none", sink=pipe))
        pipe.writer = process
        try:
            problem = unpack(pipe, local, same)
            if pipe.drain(LONGEST_END):
                code = process.wait() or 0
            else:
                code, problem = 0, problem or "it goes on behind its end"
        except OSError as error:
            raise TerminalError(f"cannot write to {local}: {error}") from error
        finally:
            pipe.give_up()
            process.kill()
        self._raise_for("read", remote, code, pipe.words)
        if problem:
            raise self._failure("read", remote, f"what came is no archive: {problem}")

    def _listed(self, remote: str) -> Files:
        """Return those regular files of a directory that can be told; of one that is not there, none."""
        data = bytearray()
        self._runner.run_into(call_at(remote, listing(remote)), BytesSink(data.extend))
        found = {}
        for line in os.fsdecode(bytes(data)).split("\n"):
            size, _, rest = line.partition(" ")
            time, _, name = rest.partition(" ./")
            with contextlib.suppress(ValueError):
                found[name] = (int(size), int(time))
        return found

    def _raise_for(self, verb: str, path: str, exit_code: int, why: str) -> None:
        if exit_code == NO_TAR:
            raise TerminalError(
                f"backend {self._backend!r}: the target has no `tar`, which moves directories; install it there"
            )
        super()._raise_for(verb, path, exit_code, why)


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
        self.writer: Process | None = None

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

    def give_up(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def read(self, size: int) -> bytes:
        """Return at most so many bytes, and none at the end."""
        while True:
            ended = self.writer is None or not self.writer.running  # asked before: all that it wrote is then here
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

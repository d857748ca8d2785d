"""Transfer of whole directories as one `tar` stream."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from environments.cancellation import in_no_scope
from environments.errors import CallCancelledError, TerminalError
from environments.local_files import PERMISSIONS, named_error_within
from environments.loop import in_worker
from environments.shell.archive import Files, list_directories, list_files, pack, unpack, whole_seconds
from environments.shell.dialect.trees import NO_TAR, dropping, listing, looking, packing, unpacking
from environments.shell.transfer import CollectedOutput, OutputHead, ReadableOutput, call_at, run_producer, run_reader

if TYPE_CHECKING:
    from pathlib import Path

    from environments.shell.files import ShellFiles

LONGEST_END = 16 * 1024 * 1024
"""Bytes allowed after the end of an archive. tar pads its last block."""
IN_FLIGHT = 4000
"""Files possibly still on their way to a tar, or unfinished, when a transfer is cancelled."""
_SIMPLE = re.compile(r"[^\s\\*?\[]+")
"""Names without special characters in any tar's list of names."""


class Directories:
    """Directories of a target, transferred by its `tar`. Its methods are coroutines of the loop.

    Args:
        files: The files of the target.
    """

    def __init__(self, files: ShellFiles) -> None:
        self._files, self._runner = files, files.runner

    async def put(self, local: Path, remote: str, skip_unchanged: bool) -> None:
        """Upload a directory, see `BaseEnvironment.put_dir`."""
        _check_directory(local)
        there = await self._list(remote) if skip_unchanged else {}
        top, folders = local.stat(), await in_worker(list_directories, local)
        begun: deque[tuple[str, int]] = deque(maxlen=IN_FLIGHT)
        began = time.monotonic()
        text = unpacking(remote, folders, top.st_mode & PERMISSIONS, whole_seconds(top))
        try:
            await self._send(remote, text, partial(pack, local, folders, there, begun.append))
        except CallCancelledError:
            with in_no_scope(), contextlib.suppress(TerminalError):  # a lost target keeps no parts
                await self._remove_parts(remote, begun, time.monotonic() - began)
            raise

    async def _send(self, remote: str, text: str, pack_into: Callable[[Callable[[bytes], object]], object]) -> None:
        """Have a command in the target unpack an archive."""
        words, whole = OutputHead(), False
        async with self._files.progress.counting(f"uploading {remote}") as count:

            def produce(send: Callable[[bytes], None]) -> None:
                nonlocal whole

                def counted(piece: bytes) -> None:
                    send(piece)
                    count.add(len(piece))

                pack_into(counted)
                whole = True

            code = await self._runner.run_fed(call_at(remote, text), words, partial(run_producer, produce), None)
            self._raise_for("write", remote, await self._files.explained(remote, "fill", code), words.text)
            if not whole:
                raise self._files.failure("write", remote, "its tar ended before the archive")

    async def _remove_parts(self, remote: str, begun: Collection[tuple[str, int]], seconds: float) -> None:
        """Remove unfinished files of an ended tar: smaller than sent, with a modification time during the transfer."""
        sizes = dict(begun)
        if not sizes:
            return
        result = await self._runner.run(call_at(remote, looking(remote, list(sizes)))._replace(binary=True))
        now, _, lines = os.fsdecode(result.output_bytes or b"").partition("\n")
        since = int(now or 0) - seconds - 1
        parts = [name for name, (size, at) in _listed(lines).items() if size < sizes.get(name, 0) and at >= since]
        if parts:
            await self._runner.run(call_at(remote, dropping(remote, parts)))

    async def get(self, remote: str, local: Path, skip_unchanged: bool) -> None:
        """Download a directory, see `BaseEnvironment.get_dir`."""
        if local.exists():
            _check_directory(local)
        same: frozenset[str] = frozenset()
        if skip_unchanged:
            there, here = await self._list(remote), await in_worker(list_files, local)
            same = frozenset(name for name, _ in there.items() & here.items())

        text = packing(remote, [name for name in same if _SIMPLE.fullmatch(name)])
        async with self._files.progress.counting(f"downloading {remote}") as count:

            def receive(reader: ReadableOutput) -> None:
                reader.on_read = count.add
                try:
                    problem = unpack(reader, local, same)
                except OSError as error:
                    raise named_error_within(error, local, "write") from error
                if reader.drain(LONGEST_END):
                    self._raise_for("read", remote, reader.code, reader.text)
                else:
                    problem = problem or "there are more bytes after its end"
                if problem:
                    raise self._files.failure("read", remote, f"the target sent no valid archive: {problem}")

            async def send(reader: ReadableOutput) -> int:
                code = await self._runner.run_into(call_at(remote, text, separate=True), reader.on)
                return await self._files.explained(remote, "pack", code)

            await run_reader(send, receive)

    async def _list(self, remote: str) -> Files:
        """Return the regular files of a directory, as far as listed; none for a missing directory."""
        output = CollectedOutput()
        await self._runner.run_into(call_at(remote, listing(remote), separate=True), output.on)
        return _listed(os.fsdecode(bytes(output.data)))

    def _raise_for(self, verb: str, path: str, exit_code: int, why: str) -> None:
        if exit_code == NO_TAR:
            raise TerminalError(
                f"backend {self._files.backend!r}: the target has no `tar`, needed for directories; install tar there"
            )
        self._files.raise_for(verb, path, exit_code, why)


def _check_directory(path: Path) -> None:
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def _listed(lines: str) -> Files:
    """Return size and modification time of files by name, parsed from lines."""
    found = {}
    for line in lines.split("\n"):
        size, _, rest = line.partition(" ")
        changed, _, name = rest.partition(" ./")
        with contextlib.suppress(ValueError):
            found[name] = (int(size), int(changed))
    return found

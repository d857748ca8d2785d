"""Files over SFTP, which takes one process on the host for all files, where the shell takes several for each."""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import secrets
import shlex
import stat
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

import paramiko

from environments.cancellation import check_scope
from environments.errors import CallCancelledError, TerminalError
from environments.local_files import PERMISSIONS, open_regular, replace_file
from environments.log import logger
from environments.loop import in_worker
from environments.options import means_directory
from environments.result import CommandResult
from environments.shell.files import ShellFiles
from environments.shell.transfer import Runner
from environments.ssh.stream import LINK_ERRORS
from environments.starting import Reporter

ONE_ANSWER = 32 * 1024
"""Bytes up to which to read by SFTP, which paramiko asks for at a time. To ask ahead for more it starts a thread, which
goes on when the file was read, and ends with a traceback if the connection is closed then. The shell is no slower."""

OnBytes = Callable[[int, int], object]

log = logger(__name__)


class NotBySFTPError(Exception):
    """SFTP did not do it. The shell tries it next, and reports the reason if it cannot either."""


def _check(_done: int, _all: int) -> None:
    """End a transfer whose scope was cancelled, where its bytes are not counted."""
    check_scope()


class SFTPFiles:
    """Moves files over one SFTP channel, opened on first use.

    It moves one at a time, as paramiko's client mixes up answers that two threads wait for. A call that comes
    meanwhile is refused, and uses the shell: a small file must not wait for a large one.

    Args:
        open_channel: Opens a channel for it.
        run: Runs a command in the target.
        cwd: Returns the directory that relative paths are taken from.
    """

    def __init__(
        self, open_channel: Callable[[], paramiko.Channel], run: Callable[[str], CommandResult], cwd: Callable[[], str]
    ) -> None:
        self._open_channel = open_channel
        self._run = run
        self._cwd = cwd
        self._lock = threading.Lock()
        self._channel: paramiko.Channel
        self._client: paramiko.SFTPClient | None = None
        self._refused = False
        self._uid = -1
        self._left: list[bytes] = []
        """Parts of files that a dropped link has left there."""

    def put(self, source: BinaryIO, path: str, mode: int | None = None, count: OnBytes | None = None) -> None:
        """Write a file beside its place and rename it into it.

        Args:
            source: The contents.
            path: The file; missing parent directories are made.
            mode: Permission bits to give it; None keeps those that are there, or takes the usual ones.
            count: Receives the number of bytes that have gone, and of all.

        Raises:
            NotBySFTPError: It was not written.
        """
        with self._session() as sftp:
            place, old = self._place(sftp, path)
            part = posixpath.join(posixpath.dirname(place), b".hermes-" + secrets.token_hex(8).encode())
            if mode is None and old:
                mode = stat.S_IMODE(old.st_mode or 0) & PERMISSIONS
            try:
                if mode is not None:
                    sftp.open(part, "wx").close()
                    sftp.chmod(part, 0o600)  # so that what others may not read is never there for them to read
                sftp.putfo(source, part, callback=count or _check)
                if old:
                    with contextlib.suppress(OSError):  # only root can give a file away
                        sftp.chown(part, old.st_uid or 0, old.st_gid or 0)
                if mode is not None:
                    sftp.chmod(part, mode)
                sftp.posix_rename(part, place)
            except BaseException:
                self._left.append(part)
                self._remove_left(sftp)
                raise

    def get(self, path: str, target: BinaryIO, count: OnBytes | None = None, limit: int | None = None) -> int:
        """Copy a file's contents into `target` and return its permission bits.

        Args:
            path: The file.
            target: Takes the contents.
            count: Receives the number of bytes that have come, and of all.
            limit: Bytes to copy at most; None is all of them.

        Raises:
            NotBySFTPError: They were not copied, or only in part.
        """
        with self._session() as sftp:
            place = self._absolute(path)
            found = sftp.stat(place)
            size = found.st_size or 0
            wanted = size if limit is None else min(size, limit)
            small = 0 < wanted <= ONE_ANSWER  # those of /proc have more in them than the 0 that they say
            if path.endswith("/") or not (small and stat.S_ISREG(found.st_mode or 0)):
                raise NotBySFTPError("it is better read by the shell")
            with sftp.open(place, "rb") as file:
                data = file.read(wanted)
            if len(data) < wanted:
                raise NotBySFTPError("it has become shorter meanwhile")
            target.write(data)
            (count or _check)(wanted, size)
            return stat.S_IMODE(found.st_mode or 0) & PERMISSIONS

    def close(self) -> None:
        """Remove the parts of files that a dropped link has left on the host, or log them if it cannot be reached."""
        if self._left:
            with contextlib.suppress(NotBySFTPError), self._session():
                pass
        for path in self._left:
            log.warning(
                "backend 'ssh': %s may still be there, as the link dropped while it was written", os.fsdecode(path)
            )

    def _remove_left(self, sftp: paramiko.SFTPClient) -> None:
        """Remove those parts of files. Those that stay as the link has dropped are tried on the next one."""
        while self._left:
            try:
                sftp.remove(self._left[-1])
            except FileNotFoundError:
                pass
            except LINK_ERRORS:
                return
            self._left.pop()

    @contextlib.contextmanager
    def _session(self) -> Iterator[paramiko.SFTPClient]:
        if self._refused or not self._lock.acquire(blocking=False):
            raise NotBySFTPError("the server has no SFTP, or it is busy with another file")
        try:
            if self._client is None or self._channel.closed:
                self._client = self._open()
                self._remove_left(self._client)
            yield self._client
        except CallCancelledError:
            raise
        except (*LINK_ERRORS, paramiko.SFTPError, UnicodeError, TerminalError) as error:
            raise NotBySFTPError(str(error)) from error
        finally:
            self._lock.release()

    def _open(self) -> paramiko.SFTPClient:
        self._channel = self._open_channel()
        try:
            self._channel.invoke_subsystem("sftp")
            return paramiko.SFTPClient(self._channel)
        except (*LINK_ERRORS, paramiko.SFTPError):
            # A server without it refuses the subsystem and keeps the connection.
            self._refused = self._channel.get_transport().is_active()
            self._channel.close()
            raise

    def _absolute(self, path: str) -> bytes:
        if path == "~" or path.startswith("~/"):
            path = self._run('printf %s "$HOME"').output + path[1:]
        return posixpath.join(self._cwd(), path.rstrip("/") or "/").encode("utf-8", "surrogateescape")

    def _place(self, sftp: paramiko.SFTPClient, given: str) -> tuple[bytes, paramiko.SFTPAttributes | None]:
        """Return where to write, behind links, with what is there now. Missing directories are made."""
        if means_directory(given):
            raise NotBySFTPError("it can only be a directory")
        path = self._absolute(given)
        try:
            found = sftp.lstat(path)
        except FileNotFoundError:
            folder = posixpath.dirname(path).decode("utf-8", "surrogateescape")
            start = "/" if given.startswith(("/", "~")) else self._cwd()  # which is not made anew
            enter = f"cd -- {shlex.quote(start)}"
            made = self._run(f"[ -d {shlex.quote(folder)} ] || {{ {enter} && mkdir -p -- {shlex.quote(folder)}; }}")
            if made.exit_code != 0:
                raise NotBySFTPError(made.output) from None
            return path, None
        if stat.S_ISLNK(found.st_mode or 0):
            path = (sftp.normalize(path) or "").encode("utf-8", "surrogateescape")
            found = sftp.stat(path)
        if not stat.S_ISREG(found.st_mode or 0):
            raise NotBySFTPError("it is not a regular file")
        if found.st_uid != self._user():
            sftp.open(path, "r+").close()  # it could be replaced although it could not be written
        return path, found

    def _user(self) -> int:
        """Return the number of the target's user."""
        if self._uid < 0:
            said = self._run("id -u").output.strip()
            self._uid = int(said) if said.isdigit() else -1
        return self._uid


class SSHFiles(ShellFiles):
    """Files of a host, by SFTP where that can, and else through a shell, see `ShellFiles`.

    Args:
        runner: Runs commands there.
        sftp: Moves files by SFTP.
        progress: Receives how far a transfer is.
    """

    def __init__(self, runner: Runner, sftp: SFTPFiles, progress: Reporter) -> None:
        super().__init__(runner, "ssh", progress)
        self._sftp = sftp

    async def write(self, path: str, data: bytes, mode: str = "") -> None:
        """Write a file, see `ShellFiles`."""
        await self.runner.ready()
        if not mode:
            with contextlib.suppress(NotBySFTPError):
                await in_worker(self._sftp.put, io.BytesIO(data), path)
                return
        await super().write(path, data, mode)

    async def read(self, path: str, limit: int | None = None) -> bytes:
        """Return a file, see `ShellFiles`."""
        await self.runner.ready()
        data = io.BytesIO()
        try:
            await in_worker(partial(self._sftp.get, path, data, limit=limit))
        except NotBySFTPError:
            return await super().read(path, limit)
        return data.getvalue()

    async def put(self, local: Path, remote: str) -> None:
        """Copy a file from here, see `ShellFiles`."""
        await self.runner.ready()
        try:
            with await in_worker(open_regular, local) as file:
                status = os.fstat(file.fileno())
                async with self.progress.counting(f"uploading {remote}", status.st_size) as count:
                    await in_worker(self._sftp.put, file, remote, stat.S_IMODE(status.st_mode) & PERMISSIONS, count.at)
        except NotBySFTPError:
            await super().put(local, remote)

    async def get(self, remote: str, local: Path) -> None:
        """Copy a file to here, see `ShellFiles`."""
        await self.runner.ready()
        modes: list[int] = []
        try:
            async with self.progress.counting(f"downloading {remote}") as count:
                get = partial(self._sftp.get, remote, count=count.at)
                await in_worker(replace_file, local, lambda file: modes.append(get(file)), lambda: modes[0])
        except NotBySFTPError:
            await super().get(remote, local)

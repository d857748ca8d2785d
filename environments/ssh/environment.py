"""Commands on another machine, over SSH."""

from __future__ import annotations

import io
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

import paramiko

from environments.atomic_file import PERMISSIONS, open_regular, replace_file
from environments.call import checked_data, checked_path
from environments.errors import EnvironmentStartError
from environments.owner import Orphan
from environments.settings import EnvironmentSettings
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.garbage import orphans_in
from environments.shell.stream import Stream, Terminal
from environments.sources import load_settings
from environments.ssh.advice import Login
from environments.ssh.config import Route, resolve
from environments.ssh.files import NotBySFTPError, SFTPFiles
from environments.ssh.link import Link
from environments.ssh.settings import SSHSettings
from environments.ssh.stream import LINK_ERRORS, SSHStream
from environments.starting import current_start


class SSHEnvironment(PersistentShellEnvironment):
    """Runs commands on the host that `ssh_host` names, as the user that `ssh_user` names.

    All shells are channels of one connection. Another one is opened only when the server allows no more channels on
    it (its `MaxSessions`), as a command must not wait for a background process that may never end.
    """

    backend = "ssh"
    settings_class = SSHSettings
    target_stays = True
    max_streams = 8
    """OpenSSH allows 10: one is for SFTP, and one for the shell that ends a command."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._own = SSHSettings.of(settings)
        self._route: Route | None = None
        self._links: list[Link] = []
        self._link_lock = threading.Lock()
        self._stopped = False
        self._sftp = SFTPFiles(self._open_channel, self.run_control, lambda: self.cwd)

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Find out which host the settings lead to, without asking it, see `BaseEnvironment`."""
        return f"to log in at {resolve(SSHSettings.of(settings))}"

    @classmethod
    def find_orphans(cls) -> Iterator[Orphan]:
        """Find what is left on the host of the settings, see `BaseEnvironment`; without a host, nothing."""
        settings = load_settings("ssh")
        if SSHSettings.of(settings).host:
            with SSHEnvironment(settings) as env:
                yield from orphans_in(env)

    def start_target(self) -> None:
        """Connect, or connect anew.

        Raises:
            SettingsError: The settings name no host, or the SSH client's configuration cannot be understood.
            EnvironmentStartError: The host cannot be reached, or does not let us in.
        """
        with self._link_lock:
            self._close_links(self._links)
            self._route = resolve(self._own)
            current_start().tell(f"connecting to {self._route}")
            self._connect()

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process on the host, see `StreamOpener`."""
        channel = self._open_channel()
        try:
            return SSHStream(channel, argv, terminal)
        except EnvironmentStartError:
            channel = self._open_channel()  # the connection may have dropped just now
            return SSHStream(channel, argv, terminal)

    def stop_target(self) -> None:
        """Disconnect."""
        with self._link_lock:
            self._stopped = True
            self._close_links(self._links)

    def target_loss(self) -> str | None:
        """Say why the connection is gone, see `PersistentShellEnvironment`."""
        return next(filter(None, (link.loss() for link in self._links)), None)

    # Files.

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, see `BaseEnvironment`."""
        self.life.ensure_started()
        try:
            self._sftp.put(io.BytesIO(checked_data(data)), checked_path(path))
        except NotBySFTPError:
            super().write_bytes(path, data)

    def read_bytes(self, path: str) -> bytes:
        """Return a file, see `BaseEnvironment`."""
        self.life.ensure_started()
        data = io.BytesIO()
        try:
            self._sftp.get(checked_path(path), data)
        except NotBySFTPError:
            return super().read_bytes(path)
        return data.getvalue()

    def put_file(self, local: str | Path, remote: str | PurePosixPath) -> None:
        """Copy a file, see `BaseEnvironment`."""
        self.life.ensure_started()
        try:
            with open_regular(Path(local)) as file:
                status = os.fstat(file.fileno())
                with self.progress.counting(f"uploading {remote}", status.st_size) as count:
                    self._sftp.put(file, checked_path(remote), stat.S_IMODE(status.st_mode) & PERMISSIONS, count.at)
        except NotBySFTPError:
            super().put_file(local, remote)

    def get_file(self, remote: str | PurePosixPath, local: str | Path) -> None:
        """Copy a file, see `BaseEnvironment`."""
        self.life.ensure_started()

        found: list[int] = []
        try:
            path = checked_path(remote)
            with self.progress.counting(f"downloading {remote}") as count:
                get = partial(self._sftp.get, path, count=count.at)
                replace_file(Path(local), lambda file: found.append(get(file)), lambda: found[0])
        except NotBySFTPError:
            super().get_file(remote, local)

    # Connections.

    def _open_channel(self) -> paramiko.Channel:
        """Open a channel on the first connection that has room, or on a new one.

        Nothing has been run yet when it fails, so that going on elsewhere runs nothing twice.
        """
        with self._link_lock:
            if self._stopped:
                raise EnvironmentStartError("the environment was cleaned up; create a new one")
            self._close_links([link for link in self._links if link.loss()])
            for link in list(self._links):
                try:
                    return link.open_channel()
                except paramiko.ChannelException:
                    continue
                except LINK_ERRORS:
                    self._close_links([link])
            link = self._connect()
            try:
                return link.open_channel()
            except LINK_ERRORS as error:
                raise EnvironmentStartError(
                    f"the SSH server {link.route} opened no session: {error}; check MaxSessions there"
                ) from error

    def _connect(self) -> Link:
        assert self._route
        login = Login(self._own.password, self._own.passphrase)
        link = Link(self._route, login)
        self._links.append(link)
        return link

    def _close_links(self, links: list[Link]) -> None:
        for link in list(links):
            self._links.remove(link)
            link.close()

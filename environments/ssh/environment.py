"""Commands on another machine, over SSH."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import paramiko

from environments.errors import CLEANED_UP, EnvironmentStartError
from environments.found_target import FoundTarget
from environments.loop import current, done_within, in_worker, run, spawn
from environments.settings import EnvironmentSettings
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.listing import list_environments
from environments.shell.rescue import printed
from environments.shell.stream import Stream, Terminal
from environments.sources import load_settings
from environments.ssh.config import Route, resolve
from environments.ssh.forwarding import Forwarding
from environments.ssh.link import Link
from environments.ssh.settings import SSHSettings
from environments.ssh.stream import LINK_ERRORS, SSHStream
from environments.starting import StartLimits, current_start
from environments.target import Address, Target

PING_LIMIT = 1.0
"""Seconds for the answer to a ping, after the same silence of a shell on the connection."""
RECONNECT_LIMIT, LOGIN_LIMIT = 2.0, 4.0
"""Seconds for a new connection and a command: with a silent server, and with a server that has replied."""


class SSHEnvironment(PersistentShellEnvironment):
    """Runs commands on the host `host`, as the user `user`.

    All shells are channels of one connection. Another connection is opened when the server allows no more channels (its
    `MaxSessions`): a command must not wait for a background process without an end.
    """

    backend = "ssh"
    settings_class = SSHSettings
    target_stays = True
    has_other_way = True
    has_watchdog = True
    max_streams = 8
    """OpenSSH allows 10. Two are kept free, such as for the shell that ends a command."""

    @classmethod
    def start_limits(cls, settings: EnvironmentSettings) -> StartLimits:
        # Logins at the same time: OpenSSH starts to refuse connections at 10 (its `MaxStartups`).
        own = SSHSettings.of(settings)
        return StartLimits(f"{own.host}:{own.port or ''}", at_once=8)

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._own = SSHSettings.of(settings)
        self._route: Route | None = None
        self._links: list[Link] = []
        self._loss: str | None = None
        """Reason for the loss of the last closed connection; None if it was alive."""
        self._link_lock = threading.Lock()
        self._stopped = False
        self._forwarding = Forwarding(self._open_tcp)

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        # No connection is made.
        return f"to log in at {resolve(SSHSettings.of(settings))}"

    @classmethod
    def list_targets(cls) -> Iterator[FoundTarget]:
        # Directories of other machines' environments are listed too; their use is not visible from here.
        settings = load_settings("ssh")
        if host := SSHSettings.of(settings).host:
            yield from list_environments(lambda: SSHEnvironment(settings), host)

    @property
    def place(self) -> str:
        """The host as `user@host:port`.

        Raises:
            SettingsError: There is no host, or the SSH client's configuration is not understood.
        """
        return str(self._route or resolve(self._own))

    def start_target(self) -> None:
        with self._link_lock:
            self._close_links(self._links)
            self._route = resolve(self._own)
            self.observation.target = ("host", self._route.host)
            current_start().report(f"connecting to {self._route}")
            self._connect()

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        channel = self._open_channel()
        try:
            return SSHStream(channel, argv, terminal)
        except EnvironmentStartError:
            channel = self._open_channel()  # the connection may have dropped just now
            return SSHStream(channel, argv, terminal)

    async def run_in_rescue(self, text: str) -> str:
        # Runs the text over a new connection if an earlier one is silent: the server's process of a connection belongs
        # to the user, and a command may have stopped (SIGSTOP) it. Connections that stay silent are abandoned here:
        # their keepalive time-out is much longer.
        loop = current().loop
        began = loop.time()
        silent = await _silent_links(self._links)
        if not silent:
            return await self._in_new_process(text)
        has_replied = threading.Event()
        trying = spawn(self._run_on_new_link(text, has_replied))
        has_answered = await done_within(trying, RECONNECT_LIMIT)
        if not has_answered and has_replied.is_set():  # alive, but on a loaded machine
            has_answered = await done_within(trying, LOGIN_LIMIT - RECONNECT_LIMIT)
        for link in await _silent_links(silent):
            link.abandon(loop.time() - began)
        output = trying.result() if has_answered else None
        if output is None:
            raise EnvironmentStartError(f"backend 'ssh': {self.place} does not answer")
        return output

    async def _run_on_new_link(self, text: str, has_replied: threading.Event) -> str | None:
        assert self._route
        with contextlib.suppress(EnvironmentStartError, *LINK_ERRORS):
            link = await in_worker(Link, self._route, self._own, has_replied.set)
            try:
                channel = await in_worker(link.transport.open_channel, "session")
                return await printed(await in_worker(SSHStream, channel, ["/bin/sh", "-c", text]))
            finally:
                spawn(in_worker(link.close))
        return None

    def describe_target(self, cwd: str) -> Target:
        assert self._route
        return Target("ssh", "host", self._route.host, str(self._own.host), self._route.host, self.login_command())

    def login_command(self, command: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the command for a login by hand. It prompts for secrets, and contains none.

        The host's name is that of the settings: the rest of the SSH client's configuration applies too.

        Args:
            command: The program to run there on a terminal. Empty is the login shell.
        """
        own, route = self._own, self._route or resolve(self._own)
        config = ("-F", str(Path(own.config).expanduser())) if own.config else ()
        key = ("-i", str(Path(own.key).expanduser())) if own.key else ()
        options = ("ssh", *config, "-p", str(route.port), *key)
        login = f"{route.user}@{own.host}"
        return (*options, "-t", login, shlex.join(command)) if command else (*options, login)

    def find_address(self, port: int) -> Address:
        self.ensure_started()
        return self.forwarded("localhost", port)

    def forwarded(self, host: str, port: int) -> Address:
        """Return a local port that leads to a port in reach of the host. Stays open until the environment's end.

        Args:
            host: The machine's name on the host.
            port: The machine's port.

        Raises:
            UnsupportedError: The server has refused this forwarding before.
            TerminalError: No port can be opened here.
        """
        return self.run_on_loop(lambda _: self._forwarding.address(host, port))

    def stop_target(self) -> None:
        try:
            run(lambda _: self._forwarding.close())
        finally:
            with self._link_lock:
                self._stopped = True
                self._close_links(self._links)

    def target_loss(self) -> str | None:
        if links := list(self._links):
            return next(filter(None, (link.loss() for link in links)), None)
        return self._loss  # another thread is reconnecting, or has failed to

    # Connections.

    def _open_channel(self) -> paramiko.Channel:
        """Open a channel on the first connection with room, or on a new connection.

        A failed open has run nothing, so another connection can be tried.
        """
        tried: list[Link] = []
        while True:
            with self._link_lock:
                self._check_links()
                link = next((link for link in self._links if link not in tried), None)
                if link is None:
                    return self._first_channel(self._connect())
            try:
                return link.transport.open_channel("session")
            except LINK_ERRORS:
                tried.append(link)

    def _first_channel(self, link: Link) -> paramiko.Channel:
        try:
            return link.transport.open_channel("session")
        except LINK_ERRORS as error:
            raise EnvironmentStartError(
                f"backend 'ssh': the server {link.route} opened no session: {error}; check MaxSessions there"
            ) from error

    def _open_tcp(self, host: str, port: int) -> paramiko.Channel:
        """Open a channel to a port in reach of the host. It takes no session of the server."""
        try:
            return self._live_link().transport.open_tcp(host, port)
        except paramiko.ChannelException:
            raise
        except LINK_ERRORS:  # the connection may have dropped just now
            return self._live_link().transport.open_tcp(host, port)

    def _live_link(self) -> Link:
        with self._link_lock:
            self._check_links()
            return self._links[0] if self._links else self._connect()

    def _check_links(self) -> None:
        if self._stopped:
            raise EnvironmentStartError(CLEANED_UP)
        self._close_links([link for link in self._links if link.loss()])

    def _connect(self) -> Link:
        assert self._route
        link = Link(self._route, self._own)
        self._links.append(link)
        return link

    def _close_links(self, links: list[Link]) -> None:
        for link in list(links):
            self._loss = link.loss()
            self._links.remove(link)
            link.close()


async def _silent_links(links: Iterable[Link]) -> list[Link]:
    """Return the links without an answer to a ping."""
    links_to_ping = list(links)
    pings = await asyncio.gather(*(link.ping(PING_LIMIT) for link in links_to_ping))
    return [link for link, has_answered in zip(links_to_ping, pings, strict=True) if not has_answered]

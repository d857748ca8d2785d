"""The network of an environment with a list of allowed hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from environments.errors import EnvironmentStartError, UnsupportedError
from environments.network.proxy import NetworkProxy
from environments.network.setting import Network
from environments.shell.dialect.boot import marked
from environments.shell.lifecycle import weak_proxy
from environments.shell.pool import opened

if TYPE_CHECKING:
    from environments.shell.environment import PersistentShellEnvironment
    from environments.shell.stream import Stream

STARTED_ANEW = "the network proxy in the target had ended, and was started anew"


class TargetNetwork:
    """Keeps the proxy of an environment running in its target, see `NetworkProxy`. Used on the loop thread.

    Args:
        env: The environment.
        hosts: The list in the settings.
    """

    def __init__(self, env: PersistentShellEnvironment, hosts: Sequence[str]) -> None:
        self._env = weak_proxy(env)
        self.hosts = self._first = tuple(hosts)
        """The current list."""
        observation = env.observation
        self._proxy = NetworkProxy(hosts, lambda host, port: observation.emit("network_refused", host=host, port=port))
        self._expected_in = 0
        """The generation of the target with the proxy."""
        self._note: str | None = None
        self.variables = self._proxy.variables
        """The variables that point programs to the proxy."""

    async def ensure(self) -> None:
        """Start the proxy in the target unless it runs there.

        Raises:
            EnvironmentStartError: The proxy cannot be started in a new target.
        """
        if self._proxy.is_up:
            return
        generation = self._env.life.generation
        is_new = generation != self._expected_in
        try:
            if await self._proxy.start(self._opened, self._env.more_pythons) and not is_new:
                self._note = STARTED_ANEW
        except EnvironmentStartError as error:
            if is_new:
                raise EnvironmentStartError(f"backend {self._env.settings.env!r}: {error}") from None
            self._note = f"there is no network: {error}"
        self._expected_in = generation

    async def _opened(self, text: str) -> Stream:
        env = self._env
        return await opened(env.open_stream, marked(env.shells.next_marker("0/"), text))

    def pop_note(self) -> str | None:
        """Return the note for the result of the next command, once."""
        note, self._note = self._note, None
        return note

    def set(self, network: Network) -> None:
        """Change the allowed hosts, see `BaseEnvironment.set_network`.

        Raises:
            UnsupportedError: `network` is `full`.
        """
        if network == "full":
            raise UnsupportedError(
                f"backend {self._env.settings.env!r} cannot give full network access to a target without a network; "
                "make an environment with network='full'"
            )
        self.hosts = () if network == "none" else network
        self._proxy.set_hosts(self.hosts)

    def stop(self) -> None:
        """Stop the proxy. The next command restarts it."""
        self._expected_in, self._note = 0, None
        self._proxy.stop()

    def reset(self) -> None:
        """Stop the proxy, and restore the list of the settings."""
        self.stop()
        self.set(self._first)

"""Environments in sandboxes of a cloud service: of their own, kept for their task, or of another program."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

from environments.claim import SharedClaim
from environments.errors import EnvironmentStartError, UnsupportedError
from environments.loop import on_loop
from environments.network.rules import service_lists
from environments.network.setting import Network, network_argument
from environments.owner import Owner
from environments.settings import EnvironmentSettings, hermes_home
from environments.short_commands.environment import PerCommandEnvironment
from environments.short_commands.service import Service
from environments.starting import current_start

S = TypeVar("S")


def kept_key(settings: EnvironmentSettings, parts: Mapping[str, object]) -> str:
    """Return the key of a task's kept files, which hold for this machine and this `HERMES_HOME`.

    Args:
        settings: The settings of the task's environment.
        parts: What else tells its sandbox from others of the task, as JSON has it.
    """
    whole = {
        "host": Owner.this_process().host,
        "home": str(hermes_home().absolute()),
        "task": settings.task_id,
        **parts,
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:32]


def claim_name(backend: str, key: str) -> str:
    """Return the name of the claim on a task's kept files."""
    return f"{backend}-{key}"


class SandboxEnvironment(PerCommandEnvironment, Generic[S]):
    """Runs commands in a sandbox of its own, which is ended in the end.

    With `container_persistent` its files are kept, and the next environment of the task has them. With the setting
    `sandbox` it is one that another program has created: it is not created, labelled, started or ended here.
    """

    service: ClassVar[Service]

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        own: Any = settings.own
        self._own_network: Network = own.network
        self._joined: str | None = own.sandbox
        """The id or the name of another program's sandbox."""
        self._sandbox: S | None = None
        self._claim: SharedClaim[S] | None = None
        self._network: Network | None = None
        """What `set_network` was given, which a new sandbox is given too."""

    # What a backend answers, besides what `PerCommandEnvironment` asks.

    @abstractmethod
    async def connect(self) -> None:
        """Connect to the service.

        Raises:
            EnvironmentStartError: There are no credentials.
        """

    @abstractmethod
    async def create_sandbox(self, key: str | None) -> S:
        """Create a sandbox.

        Args:
            key: The key of its files, if they are to be kept.
        """

    @abstractmethod
    async def change_network(self, sandbox: S, network: Network) -> None:
        """Have a sandbox reach other hosts. Raises the client's errors."""

    @abstractmethod
    async def find_kept(self, key: str) -> S | None:
        """Return the sandbox that earlier environments have left for a key, and make it ours; None without one."""

    @abstractmethod
    async def join_sandbox(self, name: str) -> S:
        """Return another program's sandbox. Raises EnvironmentStartError if it does not run."""

    @abstractmethod
    async def revive(self, sandbox: S) -> bool:
        """Have a sandbox of ours run, and return whether it can."""

    @abstractmethod
    async def end_sandbox(self, sandbox: S, key: str | None) -> None:
        """End a sandbox of ours. A failure is logged.

        Args:
            sandbox: The sandbox.
            key: The key of its files, if they are to be kept.
        """

    @abstractmethod
    def id_of(self, sandbox: S) -> str:
        """Return the id of a sandbox."""

    @abstractmethod
    async def loss_of(self, sandbox: S) -> str | None:
        """Return why a sandbox is lost; None if it is not. Raises the client's errors."""

    @abstractmethod
    def kept_key(self) -> str:
        """Return the key of the task's files, see the function of that name."""

    async def leave_sandbox(self, sandbox: S) -> None:
        """Free what is held here of another program's sandbox."""

    # What follows from that.

    @property
    def stop_ends_all(self) -> bool:
        """Whether the end of the sandbox leaves nothing of ours."""
        return not (self.settings.container_persistent or self._joined)

    @property
    def enforced_limits(self) -> frozenset[str]:
        """Names of the limits that the service enforces; none of ours in another program's sandbox."""
        return frozenset() if self._joined else super().enforced_limits

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Look for credentials, without trying them, see `BaseEnvironment`."""
        cls.service.check_credentials()
        return "credentials"

    @property
    def sandbox(self) -> S:
        """The sandbox.

        Raises:
            EnvironmentStartError: There is none.
        """
        sandbox = self._sandbox  # once, as another thread may take it away
        if sandbox is None:
            raise EnvironmentStartError(f"backend {self.backend!r}: there is no sandbox; it could not be started")
        return sandbox

    async def start_target(self) -> None:
        """Create a sandbox, or take up the one there was before a loss, or that was kept, or join another program's."""
        start = current_start()
        await start.report_on_loop(f"connecting to {self.service.title}")
        with self.service.reported(f"no sandbox can be {'joined' if self._joined else 'started'}"):
            await self.connect()
            if self._joined:
                await start.report_on_loop(f"joining sandbox {self._joined}")
                self._sandbox = await self.join_sandbox(self._joined)
            elif self._sandbox is None or not await self.revive(self._sandbox):
                self._sandbox = await self._begin()
            if self._network is not None:
                await self.change_network(self.sandbox, self._network)
        self.observation.target = ("sandbox", self.id_of(self.sandbox))

    @on_loop
    async def set_network(self, network: str | Sequence[str]) -> None:
        """Have the service hold the sandbox to other hosts, see `BaseEnvironment`."""
        hosts = network_argument(network)
        service_lists(f"backend {self.backend!r}: network", hosts)
        if self._joined:
            raise UnsupportedError(
                f"backend {self.backend!r}: sandbox {self._joined} is another program's, and its network is not changed"
            )
        await self.life.ensure_started()
        with self.service.reported("the network of the sandbox cannot be changed"):
            await self.change_network(self.sandbox, hosts)
        self._network = hosts

    def settings_on(self, snapshot: str) -> EnvironmentSettings:
        """Return settings for a sandbox of its own on a snapshot, see `PersistentShellEnvironment`."""
        settings = super().settings_on(snapshot)
        own: Any = settings.own
        network = self._own_network if self._network is None else self._network
        return replace(settings, own=replace(own, sandbox=None, network=network))

    def renew(self) -> None:
        """End all that was started, and bring back the network of the settings, see `BaseEnvironment`."""
        super().renew()
        if self._network is not None:
            self.set_network(self._own_network)
            self._network = None

    async def _begin(self) -> S:
        if not self.settings.container_persistent:
            self.is_fresh = True
            return await self.create_sandbox(None)
        key = self.kept_key()

        async def begin(others: S | None) -> S:
            if others is not None and await self.revive(others):
                return others
            kept = await self.find_kept(key)
            if kept is not None and self._own_network != "full":  # its last use may have changed it
                await self.change_network(kept, self._own_network)
            return kept or await self.create_sandbox(key)

        self._claim = self._claim or SharedClaim(claim_name(self.backend, key))
        sandbox = await self._claim.join_on_loop(begin)
        if sandbox is None:
            raise EnvironmentStartError(
                f"backend {self.backend!r}: the kept files of task {self.settings.task_id!r} are in use by another "
                "process; end that one, or set another task_id"
            )
        return sandbox

    async def stop_target(self) -> None:
        """End the sandbox; one that is shared, with the last environment of this process that has it."""
        sandbox = self._sandbox
        if self._claim:
            await self._claim.leave_on_loop(lambda kept: self.end_sandbox(kept, self.kept_key()))
        elif sandbox is not None:
            await (self.leave_sandbox(sandbox) if self._joined else self.end_sandbox(sandbox, None))
        self._sandbox = None

    async def target_loss(self) -> str | None:
        """Return why the sandbox is lost, see `PersistentShellEnvironment.target_loss`."""
        sandbox = self._sandbox
        if sandbox is None:
            return "the environment was cleaned up"
        try:
            return await self.loss_of(sandbox)
        except self.service.not_found:
            return f"sandbox {self.id_of(sandbox)} was deleted"
        except self.service.errors as error:
            return f"the service does not answer: {self.service.reason(error)}"

"""Environments in sandboxes of a cloud service: new, kept for a task, or joined."""

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
from environments.network.allow_list import service_lists
from environments.network.setting import Network, network_argument
from environments.owner import Owner
from environments.settings import EnvironmentSettings, hermes_home
from environments.short_commands.environment import PerCommandEnvironment
from environments.short_commands.service import Service
from environments.starting import current_start

S = TypeVar("S")


def kept_key(settings: EnvironmentSettings, parts: Mapping[str, object]) -> str:
    """Return the key of a task's kept files, valid for this machine and this `HERMES_HOME`.

    Args:
        settings: The settings of the task's environment.
        parts: Other properties that distinguish the task's sandboxes; JSON values.
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
    """Runs commands in a sandbox of its own, which ends with the environment.

    With `container_persistent`, the files are kept for the next environment of the task. The setting `sandbox` names
    another program's sandbox to join: it is not created, labelled, started or ended here.
    """

    service: ClassVar[Service]

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        own: Any = settings.own
        self._own_network: Network = own.network
        self._joined: str | None = own.sandbox
        """Id or name of another program's sandbox to join."""
        self._sandbox: S | None = None
        self._claim: SharedClaim[S] | None = None
        self._network: Network | None = None
        """The last argument of `set_network`; applied to a new sandbox too."""

    # The part of a backend, besides the abstract methods of `PerCommandEnvironment`.

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
            key: The key of its kept files; None if they are not kept.
        """

    @abstractmethod
    async def change_network(self, sandbox: S, network: Network) -> None:
        """Change the hosts in reach of a sandbox. Raises the client's errors."""

    @abstractmethod
    async def find_kept(self, key: str) -> S | None:
        """Return the sandbox left by earlier environments for a key, and take ownership; None without a sandbox."""

    @abstractmethod
    async def join_sandbox(self, name: str) -> S:
        """Return another program's sandbox. Raises EnvironmentStartError unless the sandbox is running."""

    @abstractmethod
    async def revive(self, sandbox: S) -> bool:
        """Restart a sandbox of ours if needed. Returns True if it is running."""

    @abstractmethod
    async def end_sandbox(self, sandbox: S, key: str | None) -> None:
        """End a sandbox of ours. A failure is logged.

        Args:
            sandbox: The sandbox.
            key: The key of its kept files; None if they are not kept.
        """

    @abstractmethod
    def id_of(self, sandbox: S) -> str:
        """Return the id of a sandbox."""

    @abstractmethod
    async def loss_of(self, sandbox: S) -> str | None:
        """Return the reason for a sandbox's loss; None while it is usable. Raises the client's errors."""

    @abstractmethod
    def kept_key(self) -> str:
        """Return the key of the task's files, see the function `kept_key`."""

    async def leave_sandbox(self, sandbox: S) -> None:
        """Release the local resources of another program's sandbox."""

    # The common part.

    @property
    def stop_ends_all(self) -> bool:
        return not (self.settings.container_persistent or self._joined)

    @property
    def enforced_limits(self) -> frozenset[str]:
        # Another program's sandbox has none of our limits.
        return frozenset() if self._joined else super().enforced_limits

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        # The credentials are not tried.
        cls.service.check_credentials()
        return "credentials"

    @property
    def sandbox(self) -> S:
        """The sandbox.

        Raises:
            EnvironmentStartError: There is none.
        """
        sandbox = self._sandbox  # read once, as another thread may clear it
        if sandbox is None:
            raise EnvironmentStartError(f"backend {self.backend!r}: there is no sandbox; it could not be started")
        return sandbox

    async def start_target(self) -> None:
        start = current_start()
        await start.report_on_loop(f"connecting to {self.service.title}")
        with self.service.start_errors(f"no sandbox can be {'joined' if self._joined else 'started'}"):
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
        hosts = network_argument(network)
        service_lists(f"backend {self.backend!r}: network", hosts)
        if self._joined:
            raise UnsupportedError(
                f"backend {self.backend!r}: sandbox {self._joined} belongs to another program; its network is fixed"
            )
        await self.life.ensure_started()
        with self.service.start_errors("the network of the sandbox cannot be changed"):
            await self.change_network(self.sandbox, hosts)
        self._network = hosts

    def settings_on(self, snapshot: str) -> EnvironmentSettings:
        # The snapshot runs in a sandbox of its own, with the present network.
        settings = super().settings_on(snapshot)
        own: Any = settings.own
        network = self._own_network if self._network is None else self._network
        return replace(settings, own=replace(own, sandbox=None, network=network))

    def renew(self) -> None:
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
            if kept is not None and self._own_network != "full":  # its last user may have changed the network
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
        # A shared sandbox ends with its last environment in this process.
        sandbox = self._sandbox
        if self._claim:
            await self._claim.leave_on_loop(lambda kept: self.end_sandbox(kept, self.kept_key()))
        elif sandbox is not None:
            await (self.leave_sandbox(sandbox) if self._joined else self.end_sandbox(sandbox, None))
        self._sandbox = None

    async def target_loss(self) -> str | None:
        sandbox = self._sandbox
        if sandbox is None:
            return "the environment was cleaned up"
        try:
            return await self.loss_of(sandbox)
        except self.service.not_found:
            return f"sandbox {self.id_of(sandbox)} was deleted"
        except self.service.errors as error:
            return f"the service does not answer: {self.service.reason(error)}"

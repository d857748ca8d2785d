"""Commands in a container by the engine's exec: the common part of new and joined containers."""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from docker.errors import NotFound

from environments.docker.client import ENGINE_ERRORS
from environments.docker.creation import container_options
from environments.docker.engine import DockerEngine, connected, reason, start_errors
from environments.docker.settings import DockerSettings
from environments.docker.stream import ExecStream
from environments.docker.target import Memory, container_address, container_target
from environments.errors import EnvironmentStartError
from environments.settings import EnvironmentSettings
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal
from environments.shell.users import TargetUser, find_user
from environments.starting import StartLimits, current_start
from environments.target import Address, Target

if TYPE_CHECKING:
    from environments.docker.client import BreakableClient

SETTLING, SETTLING_PAUSE = 0.3, 0.02
"""Seconds for the engine to notice the end of a container, after its last process has ended."""


class ContainerEnvironment(PersistentShellEnvironment):
    """Runs commands by the engine's exec in a container. Subclasses create or find the container.

    Files are moved through a shell and not through the engine's archive API, which is no faster and has faults:
    it writes below a tmpfs such as our /tmp instead of into it, writes as root for every user, and is refused
    by a container with a read-only root.
    """

    backend = "docker"
    settings_class = DockerSettings
    has_watchdog = True

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._engine = DockerEngine(settings)
        self.max_streams = self._engine.host.max_streams if self._engine.host else None
        super().__init__(settings)
        self._own = DockerSettings.of(settings)
        self._options = container_options(settings)
        self._user = ""
        """User of the processes; empty for the container's own."""
        self._api: BreakableClient | None = None
        self._container: str | None = None
        self._memory = Memory()

    # The difference between new and joined containers, besides stop_target.

    @abstractmethod
    def ready_container(self, api: BreakableClient) -> str:
        """Return the id of a running container.

        Raises:
            EnvironmentStartError: There is none.
            docker.errors.APIError: The engine refused.
        """

    @abstractmethod
    def loss_in(self, short: str, state: Mapping[str, Any]) -> str | None:
        """Return the reason why a container is lost; None while the container is usable.

        Args:
            short: The container's id for the message.
            state: `State` of the engine's description.
        """

    @abstractmethod
    def out_of_memory(self, short: str, further: str = "") -> str:
        """Return the message for a container that ran out of memory, with the remedy."""

    @property
    def link_may_drop(self) -> bool:
        return not self._engine.is_here

    @classmethod
    def start_limits(cls, settings: EnvironmentSettings) -> StartLimits:
        # One at a time, each start takes half the time, and all together twice as long (2 cores).
        return StartLimits(DockerEngine(settings).address, at_once=8)

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        with connected(settings) as api, start_errors("the engine's version cannot be read"):
            return f"engine {api.version()['Version']} at {api.engine}"

    def start_target(self) -> None:
        # After a loss, the earlier container is reused if it still exists.
        current_start().report(f"connecting to the engine at {self._engine.address}")
        self._api = api = self._engine.client(self._api)
        self._options.engine = self._engine.identity
        try:
            with start_errors("no container can be started"):
                self._container = self.ready_container(api)
                self.observation.target = ("container", self._container)
        finally:
            self._api = api  # a clean-up during the start has closed it: the next stop closes it again

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        # The process has the variables of `env`.
        return self._exec(argv, terminal, self._user)

    def find_user(self, user: str) -> TargetUser:
        # The engine can start a process as any user.
        return find_user(user, self.run_control, self.settings.env, by_engine=True)

    def open_stream_as(self, user: TargetUser, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        # The engine looks up the groups of a user by name. A number without a group would be in root's group.
        return self._exec(user.becoming(argv), terminal, user.name or f"{user.uid}:{user.gid}")

    def _exec(self, argv: Sequence[str], terminal: Terminal | None, user: str) -> Stream:
        api, container = self._target()
        with start_errors("no process can be started in the container"):
            made = api.exec_create(
                container,
                list(argv),
                stdin=True,
                tty=terminal is not None,
                user=user,
                environment=self._options.environment,
            )
            return ExecStream(api, made["Id"], terminal)

    def describe_target(self, cwd: str) -> Target:
        api, container = self._target()
        shell = self.capabilities.shell
        with self._inspecting(container):
            return container_target(self._engine, api.inspect_container(container), shell, cwd, self._user)

    def find_address(self, port: int) -> Address:
        self.ensure_started()
        api, container = self._target()
        with self._inspecting(container):
            return container_address(self._engine, api, container, port)

    @contextlib.contextmanager
    def _inspecting(self, container: str) -> Iterator[None]:
        with start_errors("the container cannot be inspected"):
            try:
                yield
            except NotFound:
                raise self.life.lost(f"container {container[:12]} was removed") from None

    def _target(self) -> tuple[BreakableClient, str]:
        api, container = self._api, self._container  # read once, as another thread may clear them
        if api is None or container is None:
            raise EnvironmentStartError("backend 'docker': there is no container; it could not be started")
        return api, container

    def target_loss(self) -> str | None:
        api, container = self._api, self._container
        if api is None or container is None:
            return "the environment was cleaned up"
        if self._engine.host and (loss := self._engine.host.target_loss()):
            return loss
        deadline = time.monotonic() + SETTLING
        while True:
            try:
                state = api.inspect_container(container)["State"]
                settled = time.monotonic() > deadline
                loss = self.loss_in(container[:12], state)
                if loss is None and settled and self._memory.ran_out(api, container):
                    loss = self.out_of_memory(container[:12])
            except NotFound:
                return f"container {container[:12]} was removed"
            except ENGINE_ERRORS as error:
                return reason(error)
            if loss or settled:
                return loss
            time.sleep(SETTLING_PAUSE)


def paused_message(container: str) -> str:
    """Return the message for a paused container, with the remedy."""
    short = container[:12]
    return f"container {short} is paused; go on with `docker unpause {short}`"

"""Commands in a container of a Docker engine: the part that new and joined containers have in common."""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from docker.errors import NotFound

from environments.docker.client import ENGINE_ERRORS
from environments.docker.creation import container_options
from environments.docker.engine import Engine, reason, reported, visited
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
"""Seconds in which the engine notices that a container has ended, which is after its last process has."""


class ContainerEnvironment(PersistentShellEnvironment):
    """Runs commands by the engine's exec in a container, which another class says how to have.

    Files are moved through a shell and not through the engine's archive API, which is no faster and wrong in places:
    it writes under a tmpfs such as our /tmp instead of into it, writes as root for every user, and is refused
    by a container with a read-only root.
    """

    backend = "docker"
    settings_class = DockerSettings
    ends_with_program = True

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._engine = Engine(settings)
        self.max_streams = self._engine.host.max_streams if self._engine.host else None
        super().__init__(settings)
        self._own = DockerSettings.of(settings)
        self._options = container_options(settings)
        self._user = ""
        """The user that processes run under; empty for the container's own."""
        self._api: BreakableClient | None = None
        self._container: str | None = None
        self._memory = Memory()

    # What the container being ours or not makes of it, besides stop_target.

    @abstractmethod
    def ready_container(self, api: BreakableClient) -> str:
        """Return the id of a container that runs.

        Raises:
            EnvironmentStartError: There is none.
            docker.errors.APIError: The engine cannot do what is asked of it.
        """

    @abstractmethod
    def loss_in(self, short: str, state: Mapping[str, Any]) -> str | None:
        """Say why a container is of no use any more, out of what the engine knows of its state; None if it is.

        Args:
            short: What to call it.
            state: As the engine tells it.
        """

    @abstractmethod
    def out_of_memory(self, short: str, further: str = "") -> str:
        """Say that a container ran out of memory, and what may help."""

    @property
    def link_may_drop(self) -> bool:
        """True if the engine is reached over a link, see `PersistentShellEnvironment`."""
        return not self._engine.is_here

    @classmethod
    def start_limits(cls, settings: EnvironmentSettings) -> StartLimits:
        """Return what brings most containers up on 2 cores, for each engine, see `BaseEnvironment`.

        One by one they take half the time each, and twice as long in all.
        """
        return StartLimits(Engine(settings).address, at_once=8)

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Ask the engine for its version, see `BaseEnvironment`."""
        with visited(settings) as api, reported("the engine cannot be asked"):
            return f"engine {api.version()['Version']} at {api.engine}"

    def start_target(self) -> None:
        """Make a container and start it; after a loss, take up the one there was if it still exists."""
        current_start().report(f"connecting to the engine at {self._engine.address}")
        self._api = api = self._engine.client(self._api)
        self._options.engine = self._engine.identity
        try:
            with reported("no container can be started"):
                self._container = self.ready_container(api)
                self.observation.target = ("container", self._container)
        finally:
            self._api = api  # also when it was closed while this went on, so that it is closed once more

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the container, see `StreamOpener`. Its environment holds what `env` says."""
        return self._opened(argv, terminal, self._user)

    def find_user(self, user: str) -> TargetUser:
        """Look for a user, see `PersistentShellEnvironment`. The engine can start a process as anybody."""
        return find_user(user, self.run_control, self.settings.env, by_engine=True)

    def open_stream_as(self, user: TargetUser, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process as another user, see `PersistentShellEnvironment`."""
        # The engine knows the groups of one who has a name. A number without one would be in root's.
        return self._opened(user.becoming(argv), terminal, user.name or f"{user.uid}:{user.gid}")

    def _opened(self, argv: Sequence[str], terminal: Terminal | None, user: str) -> Stream:
        api, container = self._target()
        with reported("no process can be started in the container"):
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
        """Say which container it is, see `PersistentShellEnvironment`."""
        api, container = self._target()
        shell = self.capabilities.shell
        with self._asking_for(container):
            return container_target(self._engine, api.inspect_container(container), shell, cwd, self._user)

    def find_address(self, port: int) -> Address:
        """Return where a port of the container can be reached, see `BaseEnvironment.address`."""
        self.ensure_started()
        api, container = self._target()
        with self._asking_for(container):
            return container_address(self._engine, api, container, port)

    @contextlib.contextmanager
    def _asking_for(self, container: str) -> Iterator[None]:
        with reported("the container cannot be asked for"):
            try:
                yield
            except NotFound:
                raise self.life.lost(f"container {container[:12]} was removed") from None

    def _target(self) -> tuple[BreakableClient, str]:
        api, container = self._api, self._container  # once, as another thread may take them away
        if api is None or container is None:
            raise EnvironmentStartError("backend 'docker': there is no container; it could not be started")
        return api, container

    def target_loss(self) -> str | None:
        """Say why the container is of no use any more, see `PersistentShellEnvironment.target_loss`."""
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


def paused(container: str) -> str:
    """Say of a container that it is paused, and what helps."""
    short = container[:12]
    return f"container {short} is paused; go on with `docker unpause {short}`"

"""Commands in a container that runs already, such as a service of compose or a dev container."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from docker.errors import APIError, NotFound

from environments.docker.client import ENGINE_ERRORS
from environments.docker.container import SETTLING, SETTLING_PAUSE, ContainerEnvironment, paused
from environments.docker.creation import LIMITS, MB
from environments.docker.engine import reason
from environments.docker.target import Memory, now_there
from environments.errors import EnvironmentStartError, UnsupportedError
from environments.settings import EnvironmentSettings
from environments.shell.stream import Stream, Terminal
from environments.starting import current_start

if TYPE_CHECKING:
    from docker import APIClient

_COMPOSE_SERVICE = "com.docker.compose.service"
"""The label of a container of compose: the service that it is one of."""


class JoinedEnvironment(ContainerEnvironment):
    """Runs commands in another program's container, beside what runs there, and removes only what it has brought.

    The container is looked up by its name whenever it has to be joined, so that one which was replaced is found.
    """

    has_snapshots = True

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._name = str(self._own.container).removeprefix("/")
        self._user = str(self._options.config.get("user") or "")
        self._begun = ""
        """When the container that was joined had been started, as the engine tells it."""
        self._limits: Mapping[str, Any] = {}

    def take_snapshot(self, name: str | None) -> str:
        """Refuse: an image of the container would hold its variables, such as passwords, and not its mounts."""
        raise UnsupportedError(
            "backend 'docker' takes no snapshot of a container that it has not made; `docker commit "
            f"{self._name} NAME` makes an image, for the setting image. It holds the variables of the container"
        )

    @property
    def stop_ends_all(self) -> bool:
        """False: the container stays."""
        return False

    @property
    def is_alone(self) -> bool:
        """False: other processes may run in the container."""
        return False

    @property
    def enforced_limits(self) -> frozenset[str]:
        """Names of the limits that the container has by itself."""
        limits = {name: self._limits.get(key) for name, (key, *_) in LIMITS.items() if name != "container_disk"}
        return frozenset(name for name, limit in limits.items() if (limit or 0) > 0)

    def ready_container(self, api: APIClient) -> str:
        """Find the container, see `ContainerEnvironment`."""
        current_start().report(f"joining container {self._name}")
        try:
            about = api.inspect_container(self._name)
        except NotFound:
            raise EnvironmentStartError(
                f"backend 'docker': there is no container {self._name} to join; {self._instead(api)}"
            ) from None
        except APIError as error:
            if "multiple ids" not in reason(error).lower():
                raise
            raise EnvironmentStartError(
                f"backend 'docker': the ids of several containers begin with {self._name}; give the setting "
                "container more of the one that is meant"
            ) from None
        if trouble := self._trouble(about["State"]):
            raise EnvironmentStartError(f"backend 'docker' cannot join container {self._name}: {trouble}")
        self._begun, self._limits = str(about["State"]["StartedAt"]), about["HostConfig"]
        self._memory = Memory(now_there(api))
        return str(about["Id"])

    def _instead(self, api: APIClient) -> str:
        """Say what may be meant where there is no such container, such as a service of compose."""
        found = api.containers(filters={"label": f"{_COMPOSE_SERVICE}={self._name}"})
        names = ", ".join(sorted(str(name).lstrip("/") for each in found for name in each["Names"][:1]))
        return f"the service of that name runs in {names}" if names else "`docker ps --all` lists those there are"

    def _trouble(self, state: Mapping[str, Any]) -> str | None:
        """Say why the container is of no use, and what helps; None if it is."""
        if state["Paused"]:
            return f"it is paused; go on with `docker unpause {self._name}`"
        if state["Restarting"]:
            return f"it ended, and the engine is about to start it anew; `docker logs {self._name}` may say why"
        if state.get("Status") == "removing":
            return "it is being removed"
        if not state["Running"]:
            return f"it does not run ({state['Status']}); start it with `docker start {self._name}`"
        return None

    def _opened(self, argv: Sequence[str], terminal: Terminal | None, user: str) -> Stream:
        """Start a process in the container that was joined, and not in its successor."""
        api, container = self._target()
        with self._asking_for(container):
            loss = self.loss_in(container[:12], api.inspect_container(container)["State"])
        if loss:
            raise self.life.lost(loss)
        return super()._opened(argv, terminal, user)

    def loss_in(self, short: str, state: Mapping[str, Any]) -> str | None:
        """Say why the container is of no use any more, see `ContainerEnvironment`."""
        if state["Paused"]:
            return paused(short)
        if not state["Running"]:
            if state.get("Status") == "removing":
                return f"container {short} was removed"
            code = state["ExitCode"]
            return f"container {short} stopped with exit code {code}; start it with `docker start {self._name}`"
        return f"container {short} was restarted" if state["StartedAt"] != self._begun else None

    def why_killed(self) -> str | None:
        """Say so if the kernel has ended a process for its memory, see `BaseEnvironment`.

        The engine is asked, and not the container's counters: they hold what was before us.
        """
        deadline = time.monotonic() + SETTLING
        while (api := self._api) and (container := self._container):
            try:
                if self._memory.ran_out(api, container):
                    return self.out_of_memory(container[:12], ", and a process was ended")
            except ENGINE_ERRORS:
                return None
            if time.monotonic() > deadline:
                return None
            time.sleep(SETTLING_PAUSE)
        return None

    def out_of_memory(self, short: str, further: str = "") -> str:
        """Say so, see `ContainerEnvironment`."""
        limit = int(self._limits.get("Memory") or 0) // MB
        own = f"its own limit is {limit} MB" if limit else "it has no limit, and the machine's own memory is used up"
        return f"container {short} ran out of memory ({own}){further}"

    def stop_target(self) -> None:
        """Leave the container, see `PersistentShellEnvironment`. It goes on as it did before."""
        api, self._api, self._container = self._api, None, None
        if api:
            api.close()
        self._engine.leave()

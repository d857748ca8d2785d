"""Commands in a running container, such as a service of compose or a dev container."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from docker.errors import APIError, NotFound

from environments.docker.client import ENGINE_ERRORS
from environments.docker.container import SETTLING, SETTLING_PAUSE, ContainerEnvironment, paused_message
from environments.docker.creation import LIMITS, MB
from environments.docker.engine import reason
from environments.docker.target import Memory, engine_time
from environments.errors import EnvironmentStartError, UnsupportedError
from environments.settings import EnvironmentSettings
from environments.shell.stream import Stream, Terminal
from environments.starting import current_start

if TYPE_CHECKING:
    from docker import APIClient

_COMPOSE_SERVICE = "com.docker.compose.service"
"""The label of a compose container, with the name of its service."""


class JoinedEnvironment(ContainerEnvironment):
    """Runs commands in another program's container, beside that program. Removes only its own files and processes.

    Each join looks the container up by name, and so finds a replaced container.
    """

    has_snapshots = True

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._name = str(self._own.container).removeprefix("/")
        self._user = str(self._options.config.get("user") or "")
        self._started_at = ""
        """`StartedAt` of the joined container."""
        self._limits: Mapping[str, Any] = {}

    def take_snapshot(self, name: str | None) -> str:
        # An image of the container would have its variables, such as passwords, and would lack its mounts.
        raise UnsupportedError(
            "backend 'docker' takes no snapshot of a container that it has not made; `docker commit "
            f"{self._name} NAME` makes an image, for the setting image. It holds the variables of the container"
        )

    @property
    def stop_ends_all(self) -> bool:
        return False  # the container stays

    @property
    def owns_all_processes(self) -> bool:
        return False  # the container may have processes of other programs

    @property
    def enforced_limits(self) -> frozenset[str]:
        # The container's own limits.
        limits = {name: self._limits.get(key) for name, (key, *_) in LIMITS.items() if name != "container_disk"}
        return frozenset(name for name, limit in limits.items() if (limit or 0) > 0)

    def ready_container(self, api: APIClient) -> str:
        current_start().report(f"joining container {self._name}")
        try:
            about = api.inspect_container(self._name)
        except NotFound:
            raise EnvironmentStartError(
                f"backend 'docker': there is no container {self._name} to join; {self._hint(api)}"
            ) from None
        except APIError as error:
            if "multiple ids" not in reason(error).lower():
                raise
            raise EnvironmentStartError(
                f"backend 'docker': the ids of several containers begin with {self._name}; give the setting "
                "container more digits of the id"
            ) from None
        if refusal := self._refusal(about["State"]):
            raise EnvironmentStartError(f"backend 'docker' cannot join container {self._name}: {refusal}")
        self._started_at, self._limits = str(about["State"]["StartedAt"]), about["HostConfig"]
        self._memory = Memory(engine_time(api))
        return str(about["Id"])

    def _hint(self, api: APIClient) -> str:
        """Return a hint for a missing container, such as the containers of a compose service of that name."""
        found = api.containers(filters={"label": f"{_COMPOSE_SERVICE}={self._name}"})
        names = ", ".join(sorted(str(name).lstrip("/") for each in found for name in each["Names"][:1]))
        return f"the service of that name runs in {names}" if names else "`docker ps --all` lists the containers"

    def _refusal(self, state: Mapping[str, Any]) -> str | None:
        """Return why the container cannot be joined, and the remedy; None if no reason is found."""
        if state["Paused"]:
            return f"it is paused; go on with `docker unpause {self._name}`"
        if state["Restarting"]:
            return f"it ended, and the engine is about to restart it; `docker logs {self._name}` may say why"
        if state.get("Status") == "removing":
            return "it is being removed"
        if not state["Running"]:
            return f"it does not run ({state['Status']}); start it with `docker start {self._name}`"
        return None

    def _exec(self, argv: Sequence[str], terminal: Terminal | None, user: str) -> Stream:
        # The joined container may have been replaced: its successor gets no process.
        api, container = self._target()
        with self._inspecting(container):
            loss = self.loss_in(container[:12], api.inspect_container(container)["State"])
        if loss:
            raise self.life.lost(loss)
        return super()._exec(argv, terminal, user)

    def loss_in(self, short: str, state: Mapping[str, Any]) -> str | None:
        if state["Paused"]:
            return paused_message(short)
        if not state["Running"]:
            if state.get("Status") == "removing":
                return f"container {short} was removed"
            code = state["ExitCode"]
            return f"container {short} stopped with exit code {code}; start it with `docker start {self._name}`"
        return f"container {short} was restarted" if state["StartedAt"] != self._started_at else None

    def why_killed(self) -> str | None:
        # The engine's events are read, and not the container's counters, which include kills before the join.
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
        limit = int(self._limits.get("Memory") or 0) // MB
        own = f"its own limit is {limit} MB" if limit else "it has no limit, and the machine's own memory is used up"
        return f"container {short} ran out of memory ({own}){further}"

    def stop_target(self) -> None:
        # The container keeps running.
        api, self._api, self._container = self._api, None, None
        if api:
            api.close()
        self._engine.disconnect()

"""Commands in a container of a Docker engine, or of Podman through DOCKER_HOST."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from docker.errors import NotFound

from environments.docker.address import engine_address
from environments.docker.creation import Creation, remove
from environments.docker.engine import connect, reason, reported
from environments.docker.garbage import find_orphans
from environments.docker.image import ensure_image
from environments.docker.labels import RUNNING, claim_name, kept_filter
from environments.docker.memory import Memory
from environments.docker.options import container_options
from environments.docker.settings import DockerSettings
from environments.docker.stream import ENGINE_ERRORS, ExecStream
from environments.errors import EnvironmentStartError, TerminalError
from environments.log import logger
from environments.owner import Orphan
from environments.settings import EnvironmentSettings
from environments.shared_claim import SharedClaim
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.memory import counting_kills
from environments.shell.stream import Stream, Terminal
from environments.starting import current_start

if TYPE_CHECKING:
    from docker import APIClient

    from environments.docker.connections import BreakableClient

STOP_TIMEOUT = 2
"""Seconds between TERM and KILL for a container that is kept. Its commands have been ended before."""
CANNOT_RUN = (126, 127)
"""Exit codes of a container whose program could not be started."""
SETTLING, SETTLING_PAUSE = 0.3, 0.02
"""Seconds in which the engine notices that a container has ended, which is after its last process has."""

log = logger(__name__)


class DockerEnvironment(PersistentShellEnvironment):
    """Runs commands in a container of its own, which is removed in the end, or kept if `container_persistent`.

    Files are moved through a shell and not through the engine's archive API, which is no faster and wrong in places:
    it writes under a tmpfs such as our /tmp instead of into it, writes as root whoever the user is, and is refused
    by a container with a read-only root.
    """

    backend = "docker"
    settings_class = DockerSettings

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._own = DockerSettings.of(settings)
        self._options = container_options(settings)
        self._api: BreakableClient | None = None
        self._container: str | None = None
        self._claim: SharedClaim[str] | None = None
        self._began = True
        self._creation = Creation(settings, self._options)
        self._memory = Memory(settings, self._options)

    @property
    def stop_ends_all(self) -> bool:
        """Whether the container, with all that runs in it, is gone when it is stopped."""
        return not self.settings.container_persistent

    @property
    def is_alone(self) -> bool:
        """Whether the container has process ids of its own, see `PersistentShellEnvironment.is_alone`."""
        # Beside others of this process it is never told apart whose turn it is to stop all, so that the first has it.
        return "pid_mode" not in self._options.host and self._began

    @property
    def enforced_limits(self) -> frozenset[str]:
        """Names of the limits that the engine holds commands to."""
        limits = {"container_cpu", "container_memory", "container_pids"}
        disk = {"container_disk"} if self.settings.container_disk else set()
        return frozenset({name for name in limits if getattr(self.settings, name) != 0} | disk)

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Ask the engine for its version, see `BaseEnvironment`."""
        with contextlib.closing(connect()) as api, reported("the engine cannot be asked"):
            return f"engine {api.version()['Version']} at {engine_address()}"

    @classmethod
    def find_orphans(cls) -> Iterable[Orphan]:
        """Go through our containers whose owner has ended, see `BaseEnvironment`."""
        return find_orphans()

    def start_target(self) -> None:
        """Make a container and start it; after a loss, take up the one there was if it still exists."""
        start = current_start()
        start.tell(f"connecting to the engine at {engine_address()}")
        api = self._api or connect()
        self._api = api
        try:
            with reported("no container can be started"):
                image = ensure_image(api, self._options.image)
                start.tell("starting a container")
                if not (self._container and self._revive(api, self._container)):
                    self._container = self._begun(api, image)
        finally:
            self._api = api  # also when it was closed while this went on, so that it is closed once more

    def _begun(self, api: APIClient, image: str) -> str:
        """Start a container, one that was kept or a new one."""
        self._memory.begin_anew()
        return self._shared(api, image) if self.settings.container_persistent else self._made(api, image)

    def _made(self, api: APIClient, image: str) -> str:
        container = self._creation.started(api, image)
        self.settings = self._creation.settings
        return container

    def _revive(self, api: APIClient, container: str) -> bool:
        try:
            state = api.inspect_container(container)["State"]
        except NotFound:
            return False
        if state["Paused"]:
            raise EnvironmentStartError(f"backend 'docker': {_paused(container)}")
        if not state["Running"]:
            self._memory.begin_anew()
            api.start(container)
        return True

    def _shared(self, api: APIClient, image: str) -> str:
        """Return a container that is kept for the task: that of others in this process, an earlier, or a new one."""
        fingerprint = self._options.fingerprint(image)
        self._claim = self._claim or SharedClaim(claim_name(self.settings.task_id, fingerprint))

        def begin(others: str | None) -> str:
            self._began = others is None
            if others and self._revive(api, others):
                return others
            if kept := self._find_kept(api, fingerprint):
                api.start(kept)
            return kept or self._made(api, image)

        container = self._claim.join(begin)
        if container is None:
            raise EnvironmentStartError(
                f"backend 'docker': the kept container of task {self.settings.task_id!r} is in use by another "
                "process; end that one, or set another task_id"
            )
        return container

    def _find_kept(self, api: APIClient, fingerprint: str) -> str | None:
        """Find the container that an earlier environment kept for the same task, made in the same way."""
        found = api.containers(all=True, filters={"label": kept_filter(self.settings.task_id, fingerprint)})
        if not found:
            return None
        container = str(found[0]["Id"])
        if found[0]["State"] in RUNNING:  # its last user was killed, and may have left commands running
            api.kill(container)
        return container

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the container, see `StreamOpener`. Its environment holds what `docker_env` says."""
        api, container = self._target()
        with reported("no process can be started in the container"):
            made = api.exec_create(
                container,
                list(argv),
                stdin=True,
                tty=terminal is not None,
                environment=self._options.environment,
            )
            return ExecStream(api, made["Id"], terminal)

    def _target(self) -> tuple[APIClient, str]:
        if self._api is None or self._container is None:
            raise EnvironmentStartError("backend 'docker': there is no container; it could not be started")
        return self._api, self._container

    def target_loss(self) -> str | None:
        """Say why the container is of no use any more, see `PersistentShellEnvironment.target_loss`."""
        if self._api is None or self._container is None:
            return "the environment was cleaned up"
        deadline = time.monotonic() + SETTLING
        while True:
            try:
                state = self._api.inspect_container(self._container)["State"]
                settled = time.monotonic() > deadline
                loss = self._loss_in(self._container[:12], state)
                if loss is None and settled and self._memory.ran_out(self._api, self._container, state):
                    loss = self._out_of_memory(self._container[:12])
            except NotFound:
                return f"container {self._container[:12]} was removed"
            except ENGINE_ERRORS as error:
                return reason(error)
            if loss or settled:
                return loss
            time.sleep(SETTLING_PAUSE)

    def why_killed(self) -> str | None:
        """Say so if the kernel has ended a process for its memory, see `BaseEnvironment`."""
        try:
            files = self.run_control(counting_kills()).output
        except TerminalError as error:
            self.life.postpone(error)
            return None
        api, container = self._api, self._container
        if api is None or container is None or not self._memory.has_killed(api, files):
            return None
        return self._out_of_memory(container[:12], ", and a process was ended")

    def _out_of_memory(self, short: str, further: str = "") -> str:
        return f"container {short} ran out of memory ({self._memory.limit}){further}; allow it more"

    def _loss_in(self, short: str, state: Mapping[str, object]) -> str | None:
        if state["Paused"]:
            return _paused(short)
        if state["Running"] and state.get("Status") != "removing":
            return None
        if state["OOMKilled"]:
            return self._out_of_memory(short)
        if state["ExitCode"] in CANNOT_RUN:
            return f"container {short} stopped, as image {self._options.image} has no /bin/sh; use one that has a shell"
        return f"container {short} stopped with exit code {state['ExitCode']}"

    def stop_target(self) -> None:
        """Remove the container, or stop it if it is kept and no other environment of this process has it."""
        api, container = self._api, self._container
        self._api = self._container = None
        if api is None:
            return
        try:
            if self._claim:
                self._claim.leave(lambda kept: api.stop(kept, timeout=STOP_TIMEOUT))
            elif container:
                remove(api, container)
        except ENGINE_ERRORS as error:
            if not isinstance(error, NotFound):
                log.warning("container %s may still be there; `hermes-env gc` removes it: %s", container, reason(error))
        finally:
            api.close()


def _paused(container: str) -> str:
    short = container[:12]
    return f"container {short} is paused; go on with `docker unpause {short}`"

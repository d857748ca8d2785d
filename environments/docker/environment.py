"""Commands in a new container of a Docker engine, or of Podman."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from docker.errors import ImageNotFound, NotFound

from environments.base import BaseEnvironment
from environments.claim import SharedClaim
from environments.docker.client import ENGINE_ERRORS
from environments.docker.container import ContainerEnvironment, paused_message
from environments.docker.creation import MB, memory_limit, start_container
from environments.docker.engine import connected, reason, start_errors
from environments.docker.image import Build, commit, ensure_built, ensure_image, remove_snapshot
from environments.docker.joined import JoinedEnvironment
from environments.docker.listing import list_targets
from environments.docker.settings import DockerSettings
from environments.docker.stream import WaitingShell
from environments.docker.target import (
    OWNER,
    RUNNING,
    Memory,
    claim_name,
    ended_by_oom,
    labels,
    make_working_directory,
    remove,
)
from environments.errors import EnvironmentStartError, SettingsError, TerminalError
from environments.found_target import FoundTarget
from environments.log import logger
from environments.settings import EnvironmentSettings
from environments.shell.memory import counting_kills
from environments.sources import load_settings
from environments.starting import current_start

if TYPE_CHECKING:
    from docker import APIClient

    from environments.docker.client import BreakableClient

STOP_TIMEOUT = 2
"""Seconds between TERM and KILL for a kept container. Its commands have been ended before."""
CANNOT_RUN = (126, 127)
"""Exit codes of a container after a failed start of its program."""

log = logger(__name__)


class DockerEnvironment(ContainerEnvironment):
    """Runs commands in a container of its own. The end of the environment removes it, unless `container_persistent`."""

    has_rescuer = has_other_way = has_snapshots = proxies_network = True

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        if self._own.container:
            raise SettingsError(
                "DockerEnvironment creates a container, and the setting container names a running one; build the "
                "environment with create_environment"
            )
        self._build = Build.of(self._own.build) if self._own.build else None
        self._claim: SharedClaim[str] | None = None
        self._is_first = True
        self._waiting_shell: WaitingShell | None = None
        self._rescue_lock = threading.Lock()

    @classmethod
    def create(cls, settings: EnvironmentSettings) -> BaseEnvironment:
        # The setting `container` names a running container to join.
        return JoinedEnvironment(settings) if DockerSettings.of(settings).container else cls(settings)

    @property
    def stop_ends_all(self) -> bool:
        # Mounts and volumes outlive the container.
        host = self._options.host
        return not (self.settings.container_persistent or ((host["Mounts"] or host["Binds"]) and self.has_scratch))

    @property
    def owns_all_processes(self) -> bool:
        # `--pid` shares process ids with other containers. In a kept container that environments of this process share,
        # only the first may stop all processes, as their turns cannot be told apart.
        return "PidMode" not in self._options.host and self._is_first

    @property
    def enforced_limits(self) -> frozenset[str]:
        limits = {"container_cpu", "container_memory", "container_pids"}
        disk = {"container_disk"} if self.settings.container_disk else set()
        return frozenset({name for name in limits if getattr(self.settings, name) != 0} | disk)

    @classmethod
    def list_targets(cls) -> Iterable[FoundTarget]:
        return list_targets(load_settings("docker"))

    def ready_container(self, api: BreakableClient) -> str:
        if self._build:
            self._options.image = ensure_built(api, self._build)
        if self._container and self._revive(api, self._container):
            return self._container
        self._memory = Memory()
        if self.settings.container_persistent:
            return self._kept_container(api, ensure_image(api, self._options.image))
        try:
            return self._create(api, self._options.image)
        except ImageNotFound:
            return self._create(api, ensure_image(api, self._options.image))

    def _create(self, api: BreakableClient, image: str) -> str:
        current_start().report("starting a container")
        container, self.settings = start_container(api, self.settings, self._options, image)
        if self.settings.cwd:
            make_working_directory(api, container, self.settings.cwd)
        return container

    def _revive(self, api: APIClient, container: str) -> bool:
        try:
            state = api.inspect_container(container)["State"]
        except NotFound:
            return False
        if state.get("Status") == "removing":
            return False
        if state["Paused"]:
            raise EnvironmentStartError(f"backend 'docker': {paused_message(container)}")
        if not state["Running"]:
            self._memory = Memory()
            api.start(container)
        return True

    def _kept_container(self, api: BreakableClient, image: str) -> str:
        """Return the kept container of the task: in use in this process, left by an earlier process, or new."""
        fingerprint = self._options.fingerprint(image)
        self._claim = self._claim or SharedClaim(claim_name(self.settings.task_id, fingerprint))

        def begin(others: str | None) -> str:
            self._is_first = others is None
            if others and self._revive(api, others):
                return others
            if kept := self._find_kept(api, fingerprint):
                api.start(kept)
            return kept or self._create(api, image)

        container = self._claim.join(begin)
        if container is None:
            raise EnvironmentStartError(
                f"backend 'docker': the kept container of task {self.settings.task_id!r} is in use by another "
                "process; end that one, or set another task_id"
            )
        return container

    def _find_kept(self, api: APIClient, fingerprint: str) -> str | None:
        """Find a container with the same options, kept for the task by an earlier environment."""
        wanted = labels(self.settings.task_id, fingerprint, kept=True)
        del wanted[OWNER]  # the label names another process
        found = api.containers(all=True, filters={"label": [f"{name}={value}" for name, value in wanted.items()]})
        if not found:
            return None
        container = str(found[0]["Id"])
        if found[0]["State"] in RUNNING:  # its last user was killed, and may have left processes running
            api.kill(container)
        return container

    def take_snapshot(self, name: str | None) -> str:
        api, container = self._target()
        with start_errors("no snapshot can be taken"):
            return commit(api, container, self.settings.task_id, name)

    def drop_snapshot(self, snapshot: str) -> None:
        with connected(self.settings) as api, start_errors(f"snapshot {snapshot} cannot be removed"):
            remove_snapshot(api, snapshot)

    def settings_on(self, snapshot: str) -> EnvironmentSettings:
        settings = super().settings_on(snapshot)
        return replace(settings, own=replace(DockerSettings.of(settings), build=None))

    def why_killed(self) -> str | None:
        try:
            files = self.run_control(counting_kills()).output
        except TerminalError as error:
            self.life.postpone(error)
            return None
        api, container = self._api, self._container
        if api is None or container is None or not self._memory.has_killed(api, files):
            return None
        return self.out_of_memory(container[:12], ", and a process was ended")

    def run_in_rescue(self, text: str) -> str:
        # A process that is stopped (SIGSTOP) during its start blocks the engine's answers about the container. The
        # text then runs in the container's own shell, one text at a time. If that shell does not answer either, the
        # container is killed.
        with self._rescue_lock, start_errors("the container does not answer"):
            api, container = self._target()
            if loss := self.loss_in(container[:12], api.inspect_container(container)["State"]):
                raise EnvironmentStartError(f"backend 'docker': {loss}")
            try:
                if self._waiting_shell and self._waiting_shell.container != container:
                    self._close_shell()
                shell = self._waiting_shell = self._waiting_shell or WaitingShell(api, container)
                if self._api is not api:  # a clean-up has run meanwhile
                    raise EnvironmentStartError("backend 'docker': the environment was cleaned up")
                output = shell.run(text)
            except BaseException:
                self._close_shell()
                raise
            if output is None:
                log.warning("container %s is killed, as no shell in it answers", container[:12])
                api.kill(container)
                self._close_shell()
                raise EnvironmentStartError("backend 'docker': the container was killed, as no shell in it answered")
            return output

    def _close_shell(self) -> None:
        shell, self._waiting_shell = self._waiting_shell, None
        if shell:
            shell.close()

    def out_of_memory(self, short: str, further: str = "") -> str:
        set_to, asked = memory_limit(self.settings), self._options.host.get("Memory", 0) // MB
        if asked not in (0, set_to):
            limit = f"--memory of extra_args is {asked} MB"
        elif set_to:
            limit = f"container_memory is {set_to} MB"
        else:
            limit = "container_memory is 0, which is no limit, and the machine's own memory is used up"
        return f"container {short} ran out of memory ({limit}){further}; allow it more"

    def loss_in(self, short: str, state: Mapping[str, Any]) -> str | None:
        if state["Paused"]:
            return paused_message(short)
        if state["Running"] and state.get("Status") != "removing":
            return None
        if (api := self._api) and ended_by_oom(api, str(self._container), state):
            return self.out_of_memory(short)
        if state["ExitCode"] in CANNOT_RUN:
            return f"container {short} stopped, as image {self._options.image} has no /bin/sh; use one that has a shell"
        return f"container {short} stopped with exit code {state['ExitCode']}"

    def stop_target(self) -> None:
        # A kept container is stopped by its last environment in this process.
        earlier, container = self._api, self._container
        self._api = self._container = None
        try:
            if earlier:
                with contextlib.closing(self._engine.client(earlier)) as api:
                    if self._claim:
                        self._claim.leave(lambda kept: api.stop(kept, timeout=STOP_TIMEOUT))
                    elif container:
                        remove(api, container)
        except NotFound:
            pass
        except (TerminalError, *ENGINE_ERRORS) as error:
            log.warning("container %s may still be there; `hermes-env gc` removes it: %s", container, reason(error))
        finally:
            self._close_shell()
            if self._claim:
                self._claim.leave(lambda kept: None)
            self._engine.disconnect()

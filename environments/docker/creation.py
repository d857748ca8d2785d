"""Making a container, and saying what the engine cannot do of what was asked for."""

from __future__ import annotations

import contextlib
import itertools
import re
import secrets
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from docker.errors import APIError

from environments.docker.address import UNIX
from environments.docker.engine import reason
from environments.docker.labels import labels
from environments.docker.mounts import near_source
from environments.docker.options import ContainerOptions
from environments.docker.removal import remove
from environments.docker.settings import DockerSettings
from environments.errors import EnvironmentStartError, TerminalError, UnsupportedError
from environments.legacy import UnheldLimitsError, going_without
from environments.settings import EnvironmentSettings
from environments.starting import current_start, unstoppable

if TYPE_CHECKING:
    from docker import APIClient

    from environments.docker.connections import BreakableClient

_NO_SOURCE = re.compile(r"bind source path does not exist: (.+)|statfs (.+): no such file", re.IGNORECASE)
"""What Docker, and Podman, say of a mount whose source is missing."""
_LIMITS = {"container_memory": "Memory", "container_cpu": "NanoCpus", "container_pids": "PidsLimit"}
"""What the engine calls the limits that it may leave out without a word."""
_held: dict[str, frozenset[str]] = {}
"""The limits that engines were seen to hold, by address, so that each is looked for once."""
_OPTIONS = {
    "container_disk": ["storage_opt"],
    "container_memory": ["mem_limit", "memswap_limit"],
    "container_cpu": ["nano_cpus"],
    "container_pids": ["pids_limit"],
}
"""What docker-py calls what is asked for."""
_WAITS = ["/bin/sh"]
"""What the container runs: a shell whose input stays open and never brings anything. Every image has one."""


class Creation:
    """How the containers of one environment are made.

    Args:
        settings: What was asked for.
        options: What the engine is asked for.
    """

    def __init__(self, settings: EnvironmentSettings, options: ContainerOptions) -> None:
        self.settings = settings
        """What is asked for, without what the engine cannot hold and nobody chose."""
        self._options = options
        self._host = dict(options.host)

    def started(self, api: BreakableClient, image: str) -> str:
        """Make a container, start it, and return its id.

        Args:
            api: The engine.
            image: The id of the image; its name where that is no matter, as the container is not kept.

        Raises:
            EnvironmentStartError: A mount is not there.
            UnsupportedError: The engine cannot do what a setting asks for.
            docker.errors.APIError: It cannot do it for another reason.
        """
        container = self._create(api, image)
        self._start_new(api, container)
        return container

    def _create(self, api: BreakableClient, image: str) -> str:
        """Create a container, if need be without limits that nobody chose."""
        try:
            return self._created(api, image)
        except UnheldLimitsError as error:
            self.settings = going_without(self.settings, error)
            for option in itertools.chain.from_iterable(_OPTIONS[name] for name in error.names):
                self._host.pop(option, None)
            return self._created(api, image)

    def _created(self, api: BreakableClient, image: str) -> str:
        options = self._options
        if self.settings.container_disk and _ignores_disk_limits(api):
            raise _no_disk_limit(api, "containerd's image store has no such limit")
        kept = self.settings.container_persistent
        config = dict(options.config)
        own = labels(self.settings.task_id, options.fingerprint(image), kept=kept)
        config["labels"] = {**_mapping(config.get("labels")), **own}
        host = api.create_host_config(**self._host)  # type: ignore[arg-type]
        name = f"hermes-{secrets.token_hex(6)}"

        def create() -> Mapping[str, Any]:
            made: Mapping[str, Any] = api.create_container(
                options.image,
                _WAITS,
                entrypoint=[],
                stdin_open=True,
                detach=True,  # so that its input stays open behind the first that is attached to it
                name=name,
                host_config=host,
                **config,  # type: ignore[arg-type]
            )
            return made

        try:
            made = current_start().alone(create, undo=partial(_remove_late, api, name))
        except APIError as error:
            if refusal := self._refusal(reason(error), api):
                raise refusal from error
            raise
        container = str(made["Id"])
        for warning in made.get("Warnings") or []:
            if "discarded" in warning:  # the engine's word for a limit that it was asked for and will not hold
                api.remove_container(container, force=True)
                why = f"{warning}; set it to 0 to do without"
                raise UnsupportedError(_unsupported(api, "a limit of container_*", why))
        asked = frozenset(name for name, limit in _LIMITS.items() if host.get(limit))
        if not asked <= _held.get(api.engine, frozenset()):
            if dropped := _dropped(asked, api.inspect_container(container)["HostConfig"]):
                api.remove_container(container, force=True)
                raise _no_limits(api, dropped)
            _held[api.engine] = _held.get(api.engine, frozenset()) | asked
        return container

    def _refusal(self, why: str, api: BreakableClient) -> TerminalError | None:
        """Tell from the engine's reason which setting it could not follow; None if none."""
        if self.settings.container_disk and re.search(r"storage.?opt|quota", why, re.IGNORECASE):
            return _no_disk_limit(api, why)
        if missing := _NO_SOURCE.search(why):
            near = near_source(missing[1] or missing[2]) if api.engine.startswith(UNIX) else ""
            return EnvironmentStartError(
                f"backend 'docker': a mount names what is not on the engine's machine: {why}{near}; make it there, or "
                "correct docker_volumes"
            )
        return None

    def _start_new(self, api: BreakableClient, container: str) -> None:
        try:
            api.start(container)
        except Exception as error:
            with unstoppable():
                remove(api, container)
            gpus = DockerSettings.of(self.settings).gpus
            if gpus and isinstance(error, APIError) and "device driver" in reason(error):
                raise UnsupportedError(_unsupported(api, "docker_gpus", reason(error))) from error
            raise


def _remove_late(api: APIClient, name: str) -> None:
    """Remove a container that came when nobody waited for it any more."""
    with contextlib.closing(api):  # which may be in no use any more
        remove(api, name)


def _dropped(asked: Collection[str], made: Mapping[str, object]) -> list[str]:
    """Return the limits that were asked for and are not there: a rootless Podman on cgroups v1 leaves them out."""
    return [name for name in asked if not made.get(_LIMITS[name])]


def _no_limits(api: BreakableClient, names: list[str]) -> UnheldLimitsError:
    why = "it left them out, as it may not use control groups"
    unset = " and ".join(f"{name} (TERMINAL_{name.upper()})" for name in names)
    return UnheldLimitsError(_unsupported(api, ", ".join(names), f"{why}; set {unset} to 0 to do without"), names, why)


def _no_disk_limit(api: BreakableClient, why: str) -> UnheldLimitsError:
    return UnheldLimitsError(_unsupported(api, "container_disk", why), ["container_disk"], why)


def _unsupported(api: BreakableClient, setting: str, why: str) -> str:
    return f"backend 'docker' cannot do what {setting} asks for with the engine at {api.engine}: {why}"


def _mapping(value: object) -> dict[str, str]:
    return value if isinstance(value, dict) else {}


def _ignores_disk_limits(api: APIClient) -> bool:
    """Whether the engine would take a disk limit and not hold it."""
    status = dict(api.info().get("DriverStatus") or [])
    return "containerd.snapshotter" in status.get("driver-type", "")

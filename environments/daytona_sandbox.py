"""What a sandbox is to be, from the settings, and how one in any state is made ready."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time
from typing import TYPE_CHECKING

from environments.base import EnvironmentStartError, SettingsError, UnsupportedError
from environments.config import hermes_home
from environments.daytona_service import apart, retried, sdk
from environments.limits import refuse_unenforced
from environments.owner import Owner

if TYPE_CHECKING:
    from environments.settings import EnvironmentSettings

ENFORCED = frozenset({"container_cpu", "container_memory", "container_disk"})
DEFAULT_IMAGE = "python:3.12-slim"
"""What runs when limits are asked for, but no image: Daytona's own default, a snapshot, has limits of its own."""
START_TIMEOUT = 600.0
"""Seconds for a sandbox to start: Daytona may have to build an image first, or bring files back from its archive."""

OWNER = "hermes-owner"
"""The process a sandbox belongs to, as `Owner.mark`."""
KEPT = "hermes-kept"
"""On a sandbox whose files are to be kept: what it is found by."""
TASK = "hermes-task"
_TASK_LENGTH = 60
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PASSING_STATES = frozenset(
    {
        "creating", "restoring", "starting", "stopping", "pending_build", "building_snapshot", "pulling_snapshot",
        "archiving", "resizing", "snapshotting", "forking", "pausing", "resuming",
    }
)  # fmt: skip
"""States that a sandbox leaves by itself."""
_POLL = 1.0


def check_settings(settings: EnvironmentSettings) -> None:
    """Refuse settings that cannot be met, before anything is asked of the service.

    Raises:
        SettingsError: A value is not understood, or two contradict each other.
        UnsupportedError: A limit is set that Daytona does not hold.
    """
    refuse_unenforced(settings, ENFORCED)
    if settings.daytona_image and settings.daytona_snapshot:
        raise SettingsError("daytona_image and daytona_snapshot are both set; keep one")
    for name in (*settings.daytona_env, *settings.daytona_forward_env):
        if not _VARIABLE_NAME.fullmatch(name):
            raise SettingsError(f"daytona_env and daytona_forward_env: {name!r} is not the name of a variable")
    _resources(settings)


def _resources(settings: EnvironmentSettings) -> sdk.Resources | None:
    limits = {name: getattr(settings, name) for name in sorted(ENFORCED) if getattr(settings, name) is not None}
    if not limits:
        return None
    if settings.daytona_snapshot:
        raise UnsupportedError(
            f"backend 'daytona' cannot enforce {', '.join(limits)} on a snapshot, whose limits are its own; set "
            "daytona_image in place of daytona_snapshot, or leave them unset"
        )
    for name, value in limits.items():
        unit = 1 if name == "container_cpu" else 1024
        if value % unit:
            raise UnsupportedError(
                f"backend 'daytona' cannot enforce {name} = {value:g}, as it counts in whole cores and GB; set it to "
                f"a multiple of {unit}"
            )
    cpu, memory, disk = settings.container_cpu, settings.container_memory, settings.container_disk
    return sdk.Resources(
        cpu=int(cpu) if cpu else None, memory=memory // 1024 if memory else None, disk=disk // 1024 if disk else None
    )


def create(service: sdk.Daytona, settings: EnvironmentSettings, key: str | None) -> sdk.Sandbox:
    """Create a sandbox, once, however often it has to be asked for.

    Args:
        service: The service.
        settings: What it is to be.
        key: What it is found by if its files are to be kept. One that has none goes when it is stopped.
    """
    name = f"hermes-{secrets.token_hex(8)}"
    parameters = _parameters(settings, name, key)

    def make() -> sdk.Sandbox:
        try:
            return service.create(parameters, timeout=START_TIMEOUT)
        except sdk.DaytonaConflictError:  # it was created, and the answer got lost
            return service.get(name)

    sandbox = apart(lambda: retried(make, "no sandbox can be created"))
    make_ready(sandbox)
    return sandbox


def _parameters(
    settings: EnvironmentSettings, name: str, key: str | None
) -> sdk.CreateSandboxFromImageParams | sdk.CreateSandboxFromSnapshotParams:
    here = os.environ
    forwarded = {variable: here[variable] for variable in settings.daytona_forward_env if variable in here}
    resources = _resources(settings)
    image = settings.daytona_image or (DEFAULT_IMAGE if resources else None)
    parameters: sdk.CreateSandboxFromImageParams | sdk.CreateSandboxFromSnapshotParams
    if image:
        parameters = sdk.CreateSandboxFromImageParams(image=image, resources=resources)
    else:
        parameters = sdk.CreateSandboxFromSnapshotParams(snapshot=settings.daytona_snapshot)
    parameters.name = name
    parameters.labels = labels(settings.task_id, key)
    parameters.env_vars = {**settings.daytona_env, **forwarded}
    parameters.auto_stop_interval = 0  # a long command is not what the service takes for activity
    parameters.network_block_all = not settings.daytona_network
    if key is None:
        parameters.ephemeral = True
        parameters.auto_delete_interval = 0
    else:
        parameters.auto_archive_interval = settings.daytona_auto_archive
        parameters.auto_delete_interval = settings.daytona_auto_delete
    return parameters


def labels(task: str, key: str | None) -> dict[str, str]:
    """Return the labels of a sandbox of this process."""
    readable = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in task)[:_TASK_LENGTH]
    own = {OWNER: Owner.this_process().mark, TASK: readable or "_"}
    return {**own, KEPT: key} if key else own


def key_of(settings: EnvironmentSettings) -> str:
    """Return what the kept sandbox of a task goes by: on this machine, in this `HERMES_HOME`, made in this way."""
    parts = {
        "host": Owner.this_process().host,
        "home": str(hermes_home().absolute()),
        "image": settings.daytona_image,
        "snapshot": settings.daytona_snapshot,
        "env": sorted(settings.daytona_env.items()),
        "network": settings.daytona_network,
        "limits": [getattr(settings, name) for name in sorted(ENFORCED)],
        "task": settings.task_id,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def make_ready(sandbox: sdk.Sandbox, attempts: int = 2) -> bool:
    """Have a sandbox run, whatever state it is in, and return whether there is one at all.

    Args:
        sandbox: The sandbox.
        attempts: How often to recover it when it breaks down in starting.

    Raises:
        EnvironmentStartError: It is broken.
    """
    try:
        state = _settled_state(sandbox)
        if state in ("stopped", "archived", "paused"):
            apart(lambda: retried(lambda: sandbox.start(timeout=START_TIMEOUT), "a sandbox cannot be started"))
        elif state == "error" and sandbox.recoverable:
            apart(lambda: retried(lambda: sandbox.recover(timeout=START_TIMEOUT), "a sandbox cannot be recovered"))
        elif state not in ("started", "destroyed", "destroying"):
            raise EnvironmentStartError(
                f"backend 'daytona': sandbox {sandbox.id} is in state {state}: {sandbox.error_reason or 'no reason'}; "
                "delete it, or set another task_id"
            )
    except sdk.DaytonaNotFoundError:
        return False
    except sdk.DaytonaError:
        if attempts and _is_recoverable(sandbox):
            return make_ready(sandbox, attempts - 1)
        raise
    return state not in ("destroyed", "destroying")


def _is_recoverable(sandbox: sdk.Sandbox) -> bool:
    retried(sandbox.refresh_data, "the state of a sandbox is unknown")
    return state_of(sandbox) == "error" and bool(sandbox.recoverable)


def _settled_state(sandbox: sdk.Sandbox) -> str:
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        retried(sandbox.refresh_data, "the state of a sandbox is unknown")
        if state_of(sandbox) not in _PASSING_STATES or time.monotonic() > deadline:
            return state_of(sandbox)
        time.sleep(_POLL)


def state_of(sandbox: sdk.Sandbox) -> str:
    """Return the state that a sandbox was in when it was last looked at."""
    return str(getattr(sandbox.state, "value", sandbox.state))

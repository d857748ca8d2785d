"""Sandboxes of Daytona: creation parameters from settings, states and end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial

from environments.daytona.service import retry, sdk
from environments.daytona.settings import DaytonaSettings, limits_of
from environments.found_target import sandbox_labels
from environments.network.allow_list import service_lists
from environments.settings import EnvironmentSettings
from environments.short_commands.sandbox import kept_key

DEFAULT_IMAGE = "python:3.12-slim"
"""The image for limits without an image: Daytona's default, a snapshot, has fixed limits."""
START_TIMEOUT = 600.0
"""Seconds for a sandbox to start. Daytona may have to build an image, or restore archived files."""
END_TIMEOUT = 60.0
"""Seconds to stop or delete a sandbox."""

_TRANSIENT_STATES = frozenset(
    {
        "creating", "restoring", "starting", "stopping", "pending_build", "building_snapshot", "pulling_snapshot",
        "archiving", "resizing", "snapshotting", "forking", "pausing", "resuming",
    }
)  # fmt: skip
"""States that pass by themselves."""
STOPPED = ("stopped", "archived", "paused")
"""States from which a sandbox can be started."""
_POLL = 1.0


async def end(sandbox: sdk.AsyncSandbox, *, kept: bool) -> None:
    """Delete a sandbox, or stop one with kept files. A missing sandbox is no error."""
    act = partial(sandbox.stop if kept else sandbox.delete, timeout=END_TIMEOUT)
    with contextlib.suppress(sdk.DaytonaNotFoundError):
        await retry(act, "a sandbox cannot be ended")


def parameters_of(
    settings: EnvironmentSettings, name: str, key: str | None
) -> sdk.CreateSandboxFromImageParams | sdk.CreateSandboxFromSnapshotParams:
    """Return the parameters of a new sandbox.

    Args:
        settings: The environment's settings.
        name: The sandbox's name.
        key: The key of its kept files. Without a key, Daytona deletes the sandbox after its stop.
    """
    own = DaytonaSettings.of(settings)
    limits = limits_of(settings)
    image = own.image or (DEFAULT_IMAGE if limits else None)
    parameters: sdk.CreateSandboxFromImageParams | sdk.CreateSandboxFromSnapshotParams
    if image and not own.source:
        cpu, memory, disk = settings.container_cpu, settings.container_memory, settings.container_disk
        resources = sdk.Resources(
            cpu=int(cpu) if cpu else None,
            memory=memory // 1024 if memory else None,
            disk=disk // 1024 if disk else None,
        )
        parameters = sdk.CreateSandboxFromImageParams(image=image, resources=resources if limits else None)
    else:
        parameters = sdk.CreateSandboxFromSnapshotParams(snapshot=own.source)
    parameters.name = name
    parameters.labels = sandbox_labels(settings.task_id, key)
    parameters.env_vars = dict(own.target_variables())
    parameters.auto_stop_interval = 0  # the service sees no activity in a long command
    networks, names = service_lists("backend 'daytona': network", own.network)
    parameters.network_block_all = own.network in ("none", ())
    parameters.network_allow_list = ",".join(networks) or None
    parameters.domain_allow_list = ",".join(names) or None
    if key is None:
        parameters.ephemeral = True
        parameters.auto_delete_interval = 0
    else:
        parameters.auto_archive_interval = own.auto_archive
        parameters.auto_delete_interval = own.auto_delete
    return parameters


def key_of(settings: EnvironmentSettings) -> str:
    """Return the key of the kept sandbox of a task, see `kept_key`."""
    own = DaytonaSettings.of(settings)
    parts = {
        "image": own.image,
        "snapshot": own.snapshot,
        "env": sorted(own.env.items()),
        "network": own.network,
        "limits": [getattr(settings, name) for name in sorted(own.enforces)],
    }
    return kept_key(settings, parts)


async def settled_state(sandbox: sdk.AsyncSandbox) -> str:
    """Wait until a sandbox leaves its passing state, and return the new state."""
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        await retry(sandbox.refresh_data, "the state of a sandbox is unknown")
        if state_of(sandbox) not in _TRANSIENT_STATES or time.monotonic() > deadline:
            return state_of(sandbox)
        await asyncio.sleep(_POLL)


def state_of(sandbox: sdk.AsyncSandbox) -> str:
    """Return the last known state of a sandbox."""
    return str(getattr(sandbox.state, "value", sandbox.state))

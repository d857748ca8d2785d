"""Sandboxes: what one is to be, from the settings, their states, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial

from environments.daytona.service import retried, sdk
from environments.daytona.settings import DaytonaSettings, limits_of
from environments.found_target import sandbox_labels
from environments.network.rules import service_lists
from environments.settings import EnvironmentSettings
from environments.short_commands.sandbox import kept_key

DEFAULT_IMAGE = "python:3.12-slim"
"""The image where limits are set, but no image: Daytona's own default, a snapshot, has limits of its own."""
START_TIMEOUT = 600.0
"""Seconds for a sandbox to start: Daytona may have to build an image first, or bring files back from its archive."""
END_TIMEOUT = 60.0
"""Seconds for a sandbox to be stopped or deleted."""

_PASSING_STATES = frozenset(
    {
        "creating", "restoring", "starting", "stopping", "pending_build", "building_snapshot", "pulling_snapshot",
        "archiving", "resizing", "snapshotting", "forking", "pausing", "resuming",
    }
)  # fmt: skip
"""States that a sandbox leaves by itself."""
STOPPED = ("stopped", "archived", "paused")
"""States of a sandbox that can be started."""
_POLL = 1.0


async def end(sandbox: sdk.AsyncSandbox, *, kept: bool) -> None:
    """Delete a sandbox, or stop it if its files are to be kept. One that is gone already is none to end."""
    act = partial(sandbox.stop if kept else sandbox.delete, timeout=END_TIMEOUT)
    with contextlib.suppress(sdk.DaytonaNotFoundError):
        await retried(act, "a sandbox cannot be ended")


def parameters_of(
    settings: EnvironmentSettings, name: str, key: str | None
) -> sdk.CreateSandboxFromImageParams | sdk.CreateSandboxFromSnapshotParams:
    """Return the arguments that a sandbox is created with.

    Args:
        settings: The settings of its environment.
        name: Its name.
        key: The key of its files, if they are to be kept. Without one it is deleted once it is stopped.
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
    parameters.auto_stop_interval = 0  # a long command is not what the service takes for activity
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
    """Return the state of a sandbox, once it is none that it leaves by itself."""
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        await retried(sandbox.refresh_data, "the state of a sandbox is unknown")
        if state_of(sandbox) not in _PASSING_STATES or time.monotonic() > deadline:
            return state_of(sandbox)
        await asyncio.sleep(_POLL)


def state_of(sandbox: sdk.AsyncSandbox) -> str:
    """Return the state that a sandbox was in when it was last looked at."""
    return str(getattr(sandbox.state, "value", sandbox.state))

"""Sandboxes: created from the settings, joined, made ready from any state, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from functools import partial

from environments.daytona.service import retried, sdk
from environments.daytona.settings import DaytonaSettings, limits_of
from environments.errors import EnvironmentStartError
from environments.found_target import sandbox_labels
from environments.loop import spawn
from environments.model_view import plain
from environments.network.rules import service_lists
from environments.network.setting import Network
from environments.settings import EnvironmentSettings
from environments.short_commands.sandbox import kept_key
from environments.starting import Start, current_start

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


def _resources(settings: EnvironmentSettings) -> sdk.Resources | None:
    if not limits_of(settings):
        return None
    cpu, memory, disk = settings.container_cpu, settings.container_memory, settings.container_disk
    return sdk.Resources(
        cpu=int(cpu) if cpu else None, memory=memory // 1024 if memory else None, disk=disk // 1024 if disk else None
    )


async def create(service: sdk.AsyncDaytona, settings: EnvironmentSettings, key: str | None) -> sdk.AsyncSandbox:
    """Create a sandbox, once, however often it has to be asked for.

    Args:
        service: The service.
        settings: What it is to be.
        key: What it is found by if its files are to be kept. One that has none goes when it is stopped.
    """
    name = f"hermes-{secrets.token_hex(8)}"
    parameters = _parameters(settings, name, key)

    start = current_start()
    await start.told("creating a sandbox")
    remove = partial(_remove_late, service, name)

    async def make() -> sdk.AsyncSandbox:
        try:
            if isinstance(parameters, sdk.CreateSandboxFromImageParams):
                told = partial(_tell, start)
                return await service.create(parameters, timeout=START_TIMEOUT, on_snapshot_create_logs=told)
            return await service.create(parameters, timeout=START_TIMEOUT)
        except sdk.DaytonaConflictError:  # it was created, and the answer got lost
            return await service.get(name)

    sandbox = await start.made(retried(make, "no sandbox can be created"), remove)
    try:
        await make_ready(sandbox)
    except asyncio.CancelledError:
        start.detach(remove())
        raise
    return sandbox


def _tell(start: Start, line: str) -> None:
    """Pass on a line of the log of an image that is being built."""
    if text := plain(line).strip():
        spawn(start.told(f"building the image: {text}"))


async def _remove_late(service: sdk.AsyncDaytona, name: str) -> None:
    """Delete a sandbox that was created after its start had ended, if it was."""
    with contextlib.suppress(sdk.DaytonaNotFoundError):
        await end(await retried(partial(service.get, name), "a sandbox cannot be looked for"), kept=False)


async def end(sandbox: sdk.AsyncSandbox, *, kept: bool) -> None:
    """Delete a sandbox, or stop it if its files are to be kept. One that is gone already is none to end."""
    act = partial(sandbox.stop if kept else sandbox.delete, timeout=END_TIMEOUT)
    with contextlib.suppress(sdk.DaytonaNotFoundError):
        await retried(act, "a sandbox cannot be ended")


async def change_network(sandbox: sdk.AsyncSandbox, network: Network) -> None:
    """Have a sandbox reach other hosts."""
    change = sandbox.update_network_settings
    if network in ("full", "none", ()):
        change = partial(change, network_block_all=network != "full")
    else:
        networks, names = service_lists("backend 'daytona': network", network)
        change = partial(change, network_allow_list=",".join(networks), domain_allow_list=",".join(names))
    await retried(change, "the network of a sandbox cannot be changed")


def _parameters(
    settings: EnvironmentSettings, name: str, key: str | None
) -> sdk.CreateSandboxFromImageParams | sdk.CreateSandboxFromSnapshotParams:
    own = DaytonaSettings.of(settings)
    resources = _resources(settings)
    image = own.image or (DEFAULT_IMAGE if resources else None)
    parameters: sdk.CreateSandboxFromImageParams | sdk.CreateSandboxFromSnapshotParams
    if image and not own.source:
        parameters = sdk.CreateSandboxFromImageParams(image=image, resources=resources)
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


async def join(service: sdk.AsyncDaytona, name: str) -> sdk.AsyncSandbox:
    """Return another program's sandbox, which is neither started, labelled nor changed.

    One that does not run is not started: it would have to be stopped again in the end, and whether others use it by
    then cannot be seen.

    Args:
        service: The service.
        name: Its id or its name.

    Raises:
        EnvironmentStartError: There is none, or it does not run.
    """
    try:
        sandbox = await retried(partial(service.get, name), "a sandbox cannot be looked for")
        state = await settled_state(sandbox)
    except sdk.DaytonaNotFoundError:
        raise EnvironmentStartError(
            f"backend 'daytona': there is no sandbox {name} to join; `daytona list` lists those there are"
        ) from None
    if state in STOPPED:
        raise EnvironmentStartError(
            f"backend 'daytona' cannot join sandbox {name}: it is {state}; start it with `daytona start {name}`"
        )
    if state != "started":
        why = f": {sandbox.error_reason}" if sandbox.error_reason else ""
        raise EnvironmentStartError(f"backend 'daytona' cannot join sandbox {name}: it is in state {state}{why}")
    return sandbox


async def make_ready(sandbox: sdk.AsyncSandbox, attempts: int = 2) -> bool:
    """Have a sandbox run, whatever state it is in, and return whether there is one at all.

    Args:
        sandbox: The sandbox.
        attempts: How often to recover it when it breaks down in starting.

    Raises:
        EnvironmentStartError: It is broken.
    """
    try:
        state = await settled_state(sandbox)
        if state in STOPPED:
            await retried(partial(sandbox.start, timeout=START_TIMEOUT), "a sandbox cannot be started")
        elif state == "error" and sandbox.recoverable:
            await retried(partial(sandbox.recover, timeout=START_TIMEOUT), "a sandbox cannot be recovered")
        elif state not in ("started", "destroyed", "destroying"):
            raise EnvironmentStartError(
                f"backend 'daytona': sandbox {sandbox.id} is in state {state}: {sandbox.error_reason or 'no reason'}; "
                "delete it, or set another task_id"
            )
    except sdk.DaytonaNotFoundError:
        return False
    except sdk.DaytonaError:
        if attempts and await _is_recoverable(sandbox):
            return await make_ready(sandbox, attempts - 1)
        raise
    return state not in ("destroyed", "destroying")


async def _is_recoverable(sandbox: sdk.AsyncSandbox) -> bool:
    await retried(sandbox.refresh_data, "the state of a sandbox is unknown")
    return state_of(sandbox) == "error" and bool(sandbox.recoverable)


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

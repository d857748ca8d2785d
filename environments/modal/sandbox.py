"""Sandboxes of Modal: creation from settings, snapshots and end."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from functools import partial

import modal
from modal import exception

from environments.found_target import CREATED, sandbox_labels
from environments.log import logger
from environments.modal.service import service
from environments.modal.settings import ModalSettings, volume_parts
from environments.network.allow_list import service_lists
from environments.network.setting import Network
from environments.settings import EnvironmentSettings
from environments.short_commands.sandbox import kept_key
from environments.starting import current_start

SNAPSHOT_TIMEOUT = 300
"""Seconds for a snapshot of a sandbox's files."""
KEPT_TTL = 30 * 24 * 3600
"""Seconds that the service keeps the files of a task. Each end of an environment makes a new snapshot."""

_IMAGE_ID = re.compile(r"im-\w+")
_LIMITS = ("container_cpu", "container_memory")
_OWN = ("app", "image", "dockerfile_commands", "gpu", "region", "volumes", "network", "ports")
"""Settings that distinguish the sandboxes of a task."""

log = logger(__name__)


def image(own: ModalSettings) -> modal.Image:
    """Return the image of the settings. The service builds the image for the first sandbox."""
    name = own.image
    if name is None:
        base = modal.Image.debian_slim()
    elif _IMAGE_ID.fullmatch(name):
        base = modal.Image.from_id(name)
    else:
        base = modal.Image.from_registry(name)
    lines = own.dockerfile_commands
    return base.dockerfile_commands(list(lines)) if lines else base


def allow_lists(network: Network) -> tuple[list[str] | None, list[str] | None]:
    """Return the networks and the names that a sandbox may reach; None for each without an allow list."""
    return service_lists("backend 'modal': network", network) if isinstance(network, tuple) else (None, None)


def _volume(text: str) -> tuple[str, modal.Volume]:
    name, path, mode = volume_parts(text)
    volume = modal.Volume.from_name(name, create_if_missing=True)
    return path, volume.read_only() if mode == "ro" else volume


def tags(settings: EnvironmentSettings, key: str | None) -> dict[str, str]:
    """Return the tags of a new sandbox of this process.

    Args:
        settings: The environment's settings.
        key: The key of kept files; None without.
    """
    return {**sandbox_labels(settings.task_id, key), CREATED: f"{time.time():.0f}"}


def key_of(settings: EnvironmentSettings) -> str:
    """Return the key of the kept files of a task, see `kept_key`."""
    own = ModalSettings.of(settings)
    parts: dict[str, object] = {name: getattr(settings, name) or None for name in _LIMITS}  # 0 is no limit
    parts |= {name: getattr(own, name) for name in _OWN}
    return kept_key(settings, parts)


async def create(
    client: modal.Client, app: modal.App, settings: EnvironmentSettings, image: modal.Image, key: str | None
) -> modal.Sandbox:
    """Create a sandbox, exactly once, with retries.

    Args:
        client: The connection.
        app: The app of the sandbox.
        settings: The environment's settings.
        image: The image.
        key: The key of kept files; None without.
    """
    # Names are unique in an app. If an answer was lost, the retry finds the first sandbox by name.
    name = f"hermes-{secrets.token_hex(12)}"
    own = ModalSettings.of(settings)
    cpu, memory = settings.container_cpu, settings.container_memory
    networks, names = allow_lists(own.network)
    make = partial(
        modal.Sandbox.create.aio,
        app=app,
        name=name,
        tags=tags(settings, key),
        image=image,
        client=client,
        timeout=own.sandbox_timeout,
        idle_timeout=own.idle_timeout,
        gpu=own.gpu,
        region=list(own.region) or None,
        cpu=(cpu, cpu) if cpu else None,  # reservation and limit
        memory=(memory, memory) if memory else None,
        block_network=own.network == "none",
        outbound_cidr_allowlist=networks,
        outbound_domain_allowlist=names,
        encrypted_ports=list(own.ports),
        volumes=dict(_volume(text) for text in own.volumes),
    )
    find = partial(modal.Sandbox.from_name.aio, own.app, name, client=client)

    async def created() -> modal.Sandbox:
        try:
            return await make()
        except exception.AlreadyExistsError:
            return await find()

    async def terminate_late() -> None:
        with contextlib.suppress(exception.NotFoundError):
            await terminate(await service.retry(find, f"sandbox {name} cannot be looked for"))

    start = current_start()
    await start.report_on_loop("building the image, and creating a sandbox")
    return await start.await_detachable(service.retry(created, "no sandbox can be created"), terminate_late)


async def is_running(sandbox: modal.Sandbox) -> bool:
    """Return True if a sandbox exists and has not ended."""
    try:
        return await service.retry(sandbox.poll.aio, "the state of the sandbox is unknown") is None
    except exception.NotFoundError:
        return False


async def take_snapshot(sandbox: modal.Sandbox, ttl: int | None) -> modal.Image:
    """Return an image of a sandbox's files.

    Args:
        sandbox: The sandbox.
        ttl: Seconds that the service keeps the image; None is until its deletion.
    """
    take = partial(sandbox.snapshot_filesystem.aio, timeout=SNAPSHOT_TIMEOUT, ttl=ttl)
    return await service.retry(take, "no snapshot can be taken")


async def terminate(sandbox: modal.Sandbox) -> None:
    """Terminate a sandbox, if it exists. A failure is logged."""
    try:
        await service.retry(sandbox.terminate.aio, "the sandbox cannot be terminated")
    except exception.NotFoundError:
        pass
    except service.errors as error:
        reason = service.reason(error)
        log.warning("sandbox %s may still run; `hermes-env gc` ends it: %s", sandbox.object_id, reason)


async def detach(sandbox: modal.Sandbox) -> None:
    """Close the connection to a sandbox, which keeps running."""
    try:
        await sandbox.detach.aio()  # type: ignore[no-untyped-call]  # of the client
    except service.errors as error:
        log.debug("modal: the sandbox was not detached: %s", service.reason(error))

"""What a sandbox is to be: image, limits, volumes and variables, from the settings."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

import modal

from environments.base import SettingsError
from environments.limits import refuse_unenforced

if TYPE_CHECKING:
    from environments.settings import EnvironmentSettings

ENFORCED = frozenset({"container_cpu", "container_memory"})
_IMAGE_ID = re.compile(r"im-\w+")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SandboxOptions(TypedDict):
    """Arguments of `modal.Sandbox.create`."""

    timeout: int
    idle_timeout: int | None
    gpu: str | None
    region: list[str] | None
    cpu: tuple[float, float] | None
    memory: tuple[int, int] | None
    block_network: bool
    volumes: dict[str | os.PathLike[str], modal.Volume | modal.CloudBucketMount]


def check_settings(settings: EnvironmentSettings) -> None:
    """Refuse settings that cannot be met, before anything is asked of the service.

    Raises:
        SettingsError: A value is not understood.
        UnsupportedError: A limit is set that Modal does not hold.
    """
    refuse_unenforced(settings, ENFORCED)
    for volume in settings.modal_volumes:
        _parsed(volume)
    for name in (*settings.modal_env, *settings.modal_forward_env):
        if not _VARIABLE_NAME.fullmatch(name):
            raise SettingsError(f"modal_env and modal_forward_env: {name!r} is not the name of a variable")


def image(settings: EnvironmentSettings) -> modal.Image:
    """Return the image that the settings describe. The service builds it when a sandbox first needs it."""
    name = settings.modal_image
    if name is None:
        base = modal.Image.debian_slim()
    elif _IMAGE_ID.fullmatch(name):
        base = modal.Image.from_id(name)
    else:
        base = modal.Image.from_registry(name)
    lines = settings.modal_dockerfile_commands
    return base.dockerfile_commands(list(lines)) if lines else base


def options(settings: EnvironmentSettings) -> SandboxOptions:
    """Return how to create a sandbox. Limits are given as what is reserved and as what is never exceeded."""
    cpu, memory = settings.container_cpu, settings.container_memory
    return SandboxOptions(
        timeout=settings.modal_sandbox_timeout,
        idle_timeout=settings.modal_idle_timeout,
        gpu=settings.modal_gpu,
        region=list(settings.modal_region) or None,
        cpu=(cpu, cpu) if cpu else None,
        memory=(memory, memory) if memory else None,
        block_network=not settings.modal_network,
        volumes=dict(_volume(text) for text in settings.modal_volumes),
    )


def variables(settings: EnvironmentSettings) -> modal.Secret | None:
    """Return the variables of everything that runs in the sandbox. They are not part of its description."""
    here: Mapping[str, str] = os.environ
    forwarded = {name: here[name] for name in settings.modal_forward_env if name in here}
    found: dict[str, str | None] = {**forwarded, **settings.modal_env}
    return modal.Secret.from_dict(found) if found else None


def _volume(text: str) -> tuple[str, modal.Volume]:
    name, path, read_only = _parsed(text)
    volume = modal.Volume.from_name(name, create_if_missing=True)
    return path, volume.read_only() if read_only else volume


def _parsed(text: str) -> tuple[str, str, bool]:
    name, _, rest = text.partition(":")
    path, _, mode = rest.partition(":")
    if not name or not path.startswith("/") or mode not in ("", "ro"):
        raise SettingsError(f"modal_volumes: {text!r} should be `name:/path` or `name:/path:ro`")
    return name, path, mode == "ro"

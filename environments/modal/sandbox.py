"""What a sandbox is to be: image, limits, volumes and variables, from the settings."""

from __future__ import annotations

import os
import re
from typing import TypedDict

import modal

from environments.modal.settings import ModalSettings, volume_parts
from environments.settings import EnvironmentSettings

_IMAGE_ID = re.compile(r"im-\w+")


class SandboxOptions(TypedDict):
    """Arguments of `modal.Sandbox.create`."""

    timeout: int
    idle_timeout: int | None
    gpu: str | None
    region: list[str] | None
    cpu: tuple[float, float] | None
    memory: tuple[int, int] | None
    block_network: bool
    encrypted_ports: list[int]
    volumes: dict[str | os.PathLike[str], modal.Volume | modal.CloudBucketMount]


def image(own: ModalSettings) -> modal.Image:
    """Return the image that the settings describe. The service builds it when a sandbox first needs it."""
    name = own.image
    if name is None:
        base = modal.Image.debian_slim()
    elif _IMAGE_ID.fullmatch(name):
        base = modal.Image.from_id(name)
    else:
        base = modal.Image.from_registry(name)
    lines = own.dockerfile_commands
    return base.dockerfile_commands(list(lines)) if lines else base


def options(settings: EnvironmentSettings) -> SandboxOptions:
    """Return how to create a sandbox. Limits are given as what is reserved and as what is never exceeded."""
    own = ModalSettings.of(settings)
    cpu, memory = settings.container_cpu, settings.container_memory
    return SandboxOptions(
        timeout=own.sandbox_timeout,
        idle_timeout=own.idle_timeout,
        gpu=own.gpu,
        region=list(own.region) or None,
        cpu=(cpu, cpu) if cpu else None,
        memory=(memory, memory) if memory else None,
        block_network=not own.network,
        encrypted_ports=list(own.ports),
        volumes=dict(_volume(text) for text in own.volumes),
    )


def variables(own: ModalSettings) -> modal.Secret | None:
    """Return the variables of everything that runs in the sandbox. They are not part of its description."""
    found: dict[str, str | None] = {**own.target_variables()}
    return modal.Secret.from_dict(found) if found else None


def _volume(text: str) -> tuple[str, modal.Volume]:
    name, path, mode = volume_parts(text)
    volume = modal.Volume.from_name(name, create_if_missing=True)
    return path, volume.read_only() if mode == "ro" else volume

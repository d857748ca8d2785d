"""Settings of backend `singularity`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from environments.errors import SettingsError
from environments.network.setting import Network
from environments.settings import RESOURCE_SETTINGS, BackendSettings, EnvironmentSettings, of_new_targets, refuse_beside

_INSTANCE = re.compile(r"[a-zA-Z0-9_.-]+")
_OF_NEW = ("image", "binds", "network", "gpu", "read_only")
"""Settings of a new instance; none of them applies to a joined instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingularitySettings(BackendSettings):
    """Settings of backend `singularity`."""

    prefix: ClassVar[str] = "singularity_"
    puts_aside: ClassVar[Mapping[str, Collection[str]]] = {
        "singularity_instance": of_new_targets("singularity_", _OF_NEW),
        "singularity_image": ("singularity_instance",),
    }
    goes_over: ClassVar[bool] = True
    enforces: ClassVar[frozenset[str]] = frozenset(RESOURCE_SETTINGS)

    image: str | None = None
    """SIF file, sandbox directory, or URI that is pulled once; `docker://python:3.12-slim` if not set."""
    instance: str | None = None
    """Name of a running instance to join. It is never stopped."""
    binds: tuple[str, ...] = ()
    """Mounts, each `host_path:/container_path`, read-only with `:ro` behind."""
    network: Network = "full"
    """`full` is the machine's network, `none` only loopback; a list names the reachable hosts."""
    gpu: bool = False
    """True: the instance has the machine's NVIDIA GPUs."""
    read_only: bool = False
    """True: only `/tmp` and mounts can be written."""

    def unheld(self, settings: EnvironmentSettings) -> frozenset[str]:
        # A joined instance has none of the limits, a read-only one no disk limit.
        if self.instance:
            return frozenset(RESOURCE_SETTINGS)
        return frozenset({"container_disk"}) if self.read_only else frozenset()

    def refuse(self, settings: EnvironmentSettings) -> None:
        if self.instance is not None:
            if not _INSTANCE.fullmatch(self.instance):
                raise SettingsError(
                    f"backend 'singularity': instance is {self.instance!r}; give the name of one instance"
                )
            refuse_beside(settings, "instance", _OF_NEW)
        for bind in self.binds:
            parts = bind.split(":")
            wrong = not 2 <= len(parts) <= 3 or not parts[1].startswith("/") or parts[2:] not in ([], ["ro"], ["rw"])
            if wrong or "," in bind:  # a comma separates two mounts
                raise SettingsError(
                    f"backend 'singularity': binds: {bind!r} should be host_path:/container_path, or "
                    "host_path:/container_path:ro, without a comma"
                )

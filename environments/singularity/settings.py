"""What can be set of Singularity and Apptainer instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from environments.errors import SettingsError
from environments.settings import RESOURCE_SETTINGS, BackendSettings, EnvironmentSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SingularitySettings(BackendSettings):
    """The settings of backend `singularity`."""

    prefix: ClassVar[str] = "singularity_"
    enforces: ClassVar[frozenset[str]] = frozenset(RESOURCE_SETTINGS)

    image: str | None = None
    """A SIF file, a sandbox directory, or a URI that is pulled once; `docker://python:3.12-slim` if not set."""
    binds: tuple[str, ...] = ()
    """Mounts, each `host_path:/container_path` or with `:ro` behind it."""
    network: bool = True
    """Whether the instance shares this machine's network; if not, there is none."""
    gpu: bool = False
    """Whether the instance has this machine's NVIDIA GPUs."""
    read_only: bool = False
    """Whether nothing can be written but `/tmp` and mounts."""

    def unheld(self, settings: EnvironmentSettings) -> frozenset[str]:
        """Return the limits that an instance never has, see `BackendSettings`: of its disk where it is read-only."""
        return frozenset({"container_disk"}) if self.read_only else frozenset()

    def refuse(self, settings: EnvironmentSettings) -> None:
        """Refuse what cannot be, see `BackendSettings`."""
        for bind in self.binds:
            parts = bind.split(":")
            wrong = not 2 <= len(parts) <= 3 or not parts[1].startswith("/") or parts[2:] not in ([], ["ro"], ["rw"])
            if wrong or "," in bind:  # a comma would make it two mounts
                raise SettingsError(
                    f"singularity_binds: {bind!r} should be host_path:/container_path, or "
                    "host_path:/container_path:ro, without a comma"
                )

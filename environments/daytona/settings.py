"""Settings of backend `daytona`."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from environments.errors import EnvironmentStartError, SettingsError, UnsupportedError
from environments.network.allow_list import service_lists
from environments.network.setting import Network
from environments.plain_number import plain_number
from environments.settings import RESOURCE_SETTINGS, BackendSettings, EnvironmentSettings, of_new_targets, refuse_beside
from environments.variables import check_names, for_target

if TYPE_CHECKING:
    from pydantic import NonNegativeInt, PositiveInt


SECRETS = ("DAYTONA_API_KEY", "DAYTONA_JWT_TOKEN")
HOW_TO_LOG_IN = "set DAYTONA_API_KEY, or DAYTONA_JWT_TOKEN and DAYTONA_ORGANIZATION_ID"
NAMED, FORK = "hermes-snapshot-", "hermes-fork-"
"""Prefixes of the names of our snapshots: of a user's, and of those below forks."""
_SANDBOX = re.compile(r"[\w.-]+")
_OF_NEW = ("image", "snapshot", "auto_archive", "auto_delete", "network", "env", "forward_env")
"""Settings of a new sandbox; none of them applies to a joined sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaytonaSettings(BackendSettings):
    """Settings of backend `daytona`."""

    prefix: ClassVar[str] = "daytona_"
    puts_aside: ClassVar[Mapping[str, Collection[str]]] = {
        "daytona_sandbox": of_new_targets("daytona_", _OF_NEW),
        "daytona_image": ("daytona_sandbox",),
    }
    enforces: ClassVar[frozenset[str]] = frozenset({"container_cpu", "container_memory", "container_disk"})

    image: str | None = None
    """Image of a registry, or a result of `snapshot()`; Daytona's default snapshot if not set, or `python:3.12-slim`
    beside limits."""
    snapshot: str | None = None
    """Snapshot at Daytona, in place of an image, with limits of its own."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for all processes in the sandbox."""
    forward_env: tuple[str, ...] = ()
    """Names of this process's variables to set there, with their values."""
    auto_archive: NonNegativeInt | None = None
    """Minutes until Daytona archives an unused kept sandbox; Daytona's choice if not set, its maximum for 0."""
    auto_delete: PositiveInt | None = None
    """Minutes until Daytona deletes an unused kept sandbox; never if not set."""
    network: Network = "full"
    """`full` is Daytona's network, `none` has none; a list names the reachable hosts, without ports."""
    sandbox: str | None = None
    """Id or name of a running sandbox to join. It is never stopped or deleted."""

    def unheld(self, settings: EnvironmentSettings) -> frozenset[str]:
        # Another program's sandbox has none of the limits. Daytona has no disk of the older system's default size.
        if self.sandbox:
            return frozenset(RESOURCE_SETTINGS)
        never = super(DaytonaSettings, self).unheld(settings) | {"container_disk"}
        return never | self.enforces if self.source else never

    @property
    def source(self) -> str | None:
        """The snapshot to create a sandbox from, if any."""
        return self.image if self.image and self.image.startswith((NAMED, FORK)) else self.snapshot

    @classmethod
    def check_credentials(cls) -> None:
        if not any(map(os.environ.get, SECRETS)):
            raise EnvironmentStartError(f"backend 'daytona' has no credentials: {HOW_TO_LOG_IN}")

    def target_variables(self) -> Mapping[str, str]:
        return for_target(self.env, self.forward_env)

    def refuse(self, settings: EnvironmentSettings) -> None:
        if self.sandbox is not None:
            if not _SANDBOX.fullmatch(self.sandbox):
                raise SettingsError(
                    f"backend 'daytona': sandbox is {self.sandbox!r}; give the id or name of one sandbox"
                )
            refuse_beside(settings, "sandbox", _OF_NEW)
        if self.image and self.snapshot:
            raise SettingsError("backend 'daytona': image and snapshot are both set; keep one")
        service_lists("backend 'daytona': network", self.network)
        check_names("env and forward_env of backend 'daytona'", (*self.env, *self.forward_env))
        limits = limits_of(settings)
        if self.source and limits:
            raise UnsupportedError(
                f"backend 'daytona' cannot enforce {', '.join(limits)} on a snapshot, as its limits are fixed; set "
                "image in place of snapshot, or leave them unset"
            )
        for name, value in limits.items():
            unit = 1 if name == "container_cpu" else 1024
            if value % unit:
                raise UnsupportedError(
                    f"backend 'daytona' cannot enforce {name} = {plain_number(value)}, as it counts in whole cores "
                    f"and GB; set it to a multiple of {unit}"
                )


def limits_of(settings: EnvironmentSettings) -> dict[str, float]:
    """Return the limits that are set, by name, in cores and MB."""
    return {name: value for name in sorted(DaytonaSettings.enforces) if (value := getattr(settings, name))}

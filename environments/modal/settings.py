"""Settings of backend `modal`."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from environments.errors import EnvironmentStartError, SettingsError
from environments.network.allow_list import service_lists
from environments.network.setting import Network
from environments.settings import (
    RESOURCE_SETTINGS,
    BackendSettings,
    EnvironmentSettings,
    hermes_home,
    of_new_targets,
    refuse_beside,
)
from environments.variables import check_names, for_target

if TYPE_CHECKING:
    from pydantic import Field, PositiveInt


HOW_TO_LOG_IN = "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or run `modal setup`, which writes ~/.modal.toml"
SNAPSHOT_FOLDER = "modal-snapshots"
"""The directory of the snapshots' notes in `HERMES_HOME`."""
_SANDBOX = re.compile(r"sb-\w+")
_ITS_MAKE = ("image", "dockerfile_commands", "gpu", "region", "volumes", "network", "ports")
_OF_NEW = (*_ITS_MAKE, "sandbox_timeout", "idle_timeout")
"""Settings of a new sandbox; none of them applies to a joined sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModalSettings(BackendSettings):
    """Settings of backend `modal`."""

    prefix: ClassVar[str] = "modal_"
    puts_aside: ClassVar[Mapping[str, Collection[str]]] = {
        "modal_sandbox": of_new_targets("modal_", _OF_NEW),
        "modal_image": ("modal_sandbox",),
    }
    enforces: ClassVar[frozenset[str]] = frozenset({"container_cpu", "container_memory"})

    image: str | None = None
    """Image of a registry, or the id (`im-...`) of one at Modal; Modal's Debian with Python if not set."""
    dockerfile_commands: tuple[str, ...] = ()
    """Dockerfile lines to build on the image, such as `["RUN apt-get update"]`."""
    app: str = "hermes-environments"
    """App of the sandboxes; created if missing."""
    sandbox_timeout: Annotated[int, Field(ge=1, le=86_400)] = 86_400
    """Seconds that a sandbox may live, at most a day."""
    idle_timeout: PositiveInt | None = None
    """Seconds without a process until Modal ends a sandbox. An open session's shell counts as a process."""
    gpu: str | None = None
    """GPU to reserve, such as `T4` or `A100:2`."""
    region: tuple[str, ...] = ()
    """Regions where the sandbox may run; any if empty."""
    volumes: tuple[str, ...] = ()
    """Modal volumes, each `name:/path`, read-only with `:ro` behind. A missing volume is created."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for all processes in the sandbox."""
    forward_env: tuple[str, ...] = ()
    """Names of this process's variables to set there, as a Modal secret."""
    network: Network = "full"
    """`full` is Modal's network, `none` has none; a list names the reachable hosts, without ports."""
    ports: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = ()
    """Ports that are public on the internet, through TLS; `address()` returns where."""
    sandbox: str | None = None
    """Id (`sb-...`) of a running sandbox to join. It is never terminated."""

    def unheld(self, settings: EnvironmentSettings) -> frozenset[str]:
        # Another program's sandbox has none of the limits.
        return frozenset(RESOURCE_SETTINGS) if self.sandbox else super(ModalSettings, self).unheld(settings)

    @classmethod
    def check_credentials(cls) -> None:
        # Without credentials, the notes of snapshots can still be listed.
        has_variables = os.environ.get("MODAL_TOKEN_ID") or os.environ.get("MODAL_OAUTH_REFRESH_TOKEN")
        file = Path(os.environ.get("MODAL_CONFIG_PATH") or "~/.modal.toml").expanduser()
        if not (has_variables or file.exists() or (hermes_home() / SNAPSHOT_FOLDER).exists()):
            raise EnvironmentStartError(f"backend 'modal' has no credentials: {HOW_TO_LOG_IN}")

    def target_variables(self) -> Mapping[str, str]:
        return for_target(self.env, self.forward_env)

    def refuse(self, settings: EnvironmentSettings) -> None:
        check_names("env and forward_env of backend 'modal'", (*self.env, *self.forward_env))
        if self.sandbox is not None:
            if not _SANDBOX.fullmatch(self.sandbox):
                raise SettingsError(f"backend 'modal': sandbox is {self.sandbox!r}; give the id of one sandbox")
            refuse_beside(settings, "sandbox", _OF_NEW)
        if self.ports and self.network == "none":
            raise SettingsError("backend 'modal': ports and network = none contradict each other; keep one")
        service_lists("backend 'modal': network", self.network)
        for volume in self.volumes:
            name, path, mode = volume_parts(volume)
            if not name or not path.startswith("/") or mode not in ("", "ro"):
                raise SettingsError(f"backend 'modal': volumes: {volume!r} should be `name:/path` or `name:/path:ro`")


def volume_parts(text: str) -> tuple[str, str, str]:
    """Split an entry of `volumes` into name, path and mode."""
    name, _, rest = text.partition(":")
    path, _, mode = rest.partition(":")
    return name, path, mode

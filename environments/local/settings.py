"""Settings of backend `local`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from environments.errors import SettingsError, UnsupportedError
from environments.network.setting import Network
from environments.settings import BackendSettings, EnvironmentSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings(BackendSettings):
    """Settings of backend `local`. The backend enforces no limits."""

    prefix: ClassVar[str] = "local_"

    sandbox: Literal["none", "bubblewrap"] = "none"
    """`bubblewrap` selects backend `bubblewrap`."""
    sandbox_paths: tuple[str, ...] = ()
    """Same as `paths` of backend `bubblewrap`."""
    sandbox_read_only_paths: tuple[str, ...] = ()
    """Same as `read_only_paths` of backend `bubblewrap`."""
    sandbox_network: Network = "none"
    """Same as `network` of backend `bubblewrap`."""

    def leads_to(self) -> tuple[str, Mapping[str, object]] | None:
        if self.sandbox == "none":
            return None
        return self.sandbox, {
            "paths": self.sandbox_paths,
            "read_only_paths": self.sandbox_read_only_paths,
            "network": self.sandbox_network,
        }

    def refuse(self, settings: EnvironmentSettings) -> None:
        if self.sandbox != "none":
            raise UnsupportedError(
                "backend 'local' has no sandbox, and sandbox asks for one; let load_settings or "
                f"create_environment load the settings, or take backend {self.sandbox!r}"
            )
        for name in ("sandbox_paths", "sandbox_read_only_paths", "sandbox_network"):
            if getattr(self, name) not in ((), "none"):
                raise SettingsError(
                    f"local_{name} is set, and there is no sandbox; take backend bubblewrap (TERMINAL_ENV), or leave "
                    f"local_{name} unset"
                )

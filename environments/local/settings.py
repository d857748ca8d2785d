"""What can be set of this machine alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from environments.errors import SettingsError
from environments.settings import BackendSettings, EnvironmentSettings

SandboxKind = Literal["none", "bubblewrap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings(BackendSettings):
    """The settings of backend `local`. It holds no limits, within a sandbox or without."""

    prefix: ClassVar[str] = "local_"

    sandbox: SandboxKind = "none"
    """`bubblewrap` gives commands namespaces of their own, in which they see the system, the working directory and
    what is named here, and nothing else; `none` lets them do what this user may do."""
    sandbox_paths: tuple[str, ...] = ()
    """Files and directories that commands in the sandbox may write, beside the working directory."""
    sandbox_read_only_paths: tuple[str, ...] = ()
    """Files and directories that they may read, such as `["~/.gitconfig"]`."""
    sandbox_network: bool = False
    """Whether the sandbox shares this machine's network; if not, there is none."""

    def refuse(self, settings: EnvironmentSettings) -> None:
        """Refuse what would have no effect, see `BackendSettings`."""
        for name in ("sandbox_paths", "sandbox_read_only_paths", "sandbox_network"):
            if getattr(self, name) and self.sandbox == "none":
                raise SettingsError(
                    f"local_{name} is set, and there is no sandbox; set local_sandbox (TERMINAL_LOCAL_SANDBOX) to "
                    f"bubblewrap, or leave local_{name} unset"
                )

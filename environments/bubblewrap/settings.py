"""Settings of backend `bubblewrap`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from environments.network.setting import Network
from environments.settings import BackendSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BubblewrapSettings(BackendSettings):
    """Settings of backend `bubblewrap`. The backend enforces no limits."""

    prefix: ClassVar[str] = "bubblewrap_"

    paths: tuple[str, ...] = ()
    """Files and directories that commands may write, beside the working directory."""
    read_only_paths: tuple[str, ...] = ()
    """Files and directories that commands may only read, such as `["~/.gitconfig"]`."""
    network: Network = "none"
    """`full` is this machine's network, `none` only loopback; a list names the reachable hosts."""

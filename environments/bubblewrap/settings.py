"""Settings of bubblewrap's sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from environments.network.setting import Network
from environments.settings import BackendSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BubblewrapSettings(BackendSettings):
    """The settings of backend `bubblewrap`. It holds no limits."""

    prefix: ClassVar[str] = "bubblewrap_"

    paths: tuple[str, ...] = ()
    """Files and directories that commands in the sandbox may write, beside the working directory."""
    read_only_paths: tuple[str, ...] = ()
    """Files and directories that they may read, such as `["~/.gitconfig"]`."""
    network: Network = "none"
    """`full` shares this machine's network, `none` has none, and a list has the hosts that alone can be reached."""

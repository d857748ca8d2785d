"""What can be set of this machine alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from environments.settings import BackendSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings(BackendSettings):
    """The settings of backend `local`: none beside the general ones. It holds no limits."""

    prefix: ClassVar[str] = "local_"

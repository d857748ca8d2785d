"""Where this run of a suite is to work, as `plugs.running` says."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """A backend of ours with its settings, or one of the framework's own."""

    name: str
    tags: tuple[str, ...]
    """What is true of it, which some tests cannot pass by, such as `root`."""
    settings: Mapping[str, Any]
    """The arguments of `create_environment`; none for one of the framework's own."""

    @property
    def own(self) -> str | None:
        """Which of the framework's own backends it is, if it is one."""
        return self.name.removeprefix("own ") if self.name.startswith("own ") else None


PLACE = Place(**json.loads(os.environ["PLUG_PLACE"]))

"""The place of this run of a suite, chosen by `plugs.running`."""

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
    """Properties that make some tests fail, such as `root`."""
    settings: Mapping[str, Any]
    """The arguments of `create_environment`; empty for a backend of the framework's own."""

    @property
    def own(self) -> str | None:
        """The name of the framework's own backend; empty for a backend of ours."""
        return self.name.removeprefix("own ") if self.name.startswith("own ") else None


PLACE = Place(**json.loads(os.environ["PLUG_PLACE"]))

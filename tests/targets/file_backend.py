"""A third-party backend whose targets are files of a directory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from environments import BaseEnvironment, TerminalError
from environments.found_target import FoundTarget
from environments.owner import Owner

FOLDER = "TEST_TARGET_FILES"
"""The environment variable with the directory's path."""
NAME = f"{__name__}:FileBackend"


@dataclass(frozen=True)
class TargetFiles:
    """The targets in the directory."""

    folder: Path

    def put(self, thing: str, **about: object) -> None:
        """Create a target with attributes of `FoundTarget`."""
        (self.folder / thing).write_text(json.dumps(about))

    @property
    def left(self) -> list[str]:
        """Names of the remaining targets."""
        return sorted(file.name for file in self.folder.iterdir())


class FileBackend(BaseEnvironment):
    """Lists the targets in the directory."""

    backend = "targets"

    @classmethod
    def list_targets(cls) -> Iterator[FoundTarget]:
        for file in sorted(Path(os.environ[FOLDER]).iterdir()):
            if file.name == "broken":
                raise ValueError("the folder is broken")
            about = {"kind": "sandbox", "id": file.name, "state": "kept", **json.loads(file.read_text())}
            owner = _owner(about.pop("use", "free"))
            aside = partial(file.rename, f"{file}.stopped") if about.get("name") == "kept-aside" else None
            yield FoundTarget(**about, owner=owner, delete=partial(_remove, file), set_aside=aside)


def _owner(use: str) -> Owner | None:
    """Return an owner for a use: `live` is this process, `orphan` an ended one, `elsewhere` another host."""
    here = Owner.this_process()
    owners = {"live": here, "orphan": here._replace(started="earlier"), "elsewhere": here._replace(host="another")}
    return owners.get(use)


def _remove(file: Path) -> None:
    if "locked" in file.name:
        raise TerminalError(f"{file.name} is locked; unlock it first")
    file.unlink(missing_ok=True)

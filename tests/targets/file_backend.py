"""A backend that somebody else might have: what it has made lies on a shelf, a folder with one file for each thing."""

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
"""The variable that names it."""
NAME = f"{__name__}:FileBackend"


@dataclass(frozen=True)
class TargetFiles:
    """What lies on the shelf."""

    folder: Path

    def put(self, thing: str, **about: object) -> None:
        """Put something there, of which something is known."""
        (self.folder / thing).write_text(json.dumps(about))

    @property
    def left(self) -> list[str]:
        """What is still there."""
        return sorted(file.name for file in self.folder.iterdir())


class FileBackend(BaseEnvironment):
    """Finds what lies on the shelf."""

    backend = "targets"

    @classmethod
    def list_targets(cls) -> Iterator[FoundTarget]:
        """Go through it; a file of the name `broken` is where it breaks."""
        for file in sorted(Path(os.environ[FOLDER]).iterdir()):
            if file.name == "broken":
                raise ValueError("the folder is broken")
            about = {"kind": "sandbox", "id": file.name, "state": "kept", **json.loads(file.read_text())}
            owner = _owner(about.pop("use", "free"))
            aside = partial(file.rename, f"{file}.stopped") if about.get("name") == "kept-aside" else None
            yield FoundTarget(**about, owner=owner, delete=partial(_remove, file), set_aside=aside)


def _owner(use: str) -> Owner | None:
    """Return an owner whose targets are used in this way; the live one is this process."""
    here = Owner.this_process()
    owners = {"live": here, "orphan": here._replace(started="earlier"), "elsewhere": here._replace(host="another")}
    return owners.get(use)


def _remove(file: Path) -> None:
    if "locked" in file.name:
        raise TerminalError(f"{file.name} is locked; unlock it first")
    file.unlink(missing_ok=True)

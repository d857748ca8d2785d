"""Images that are built here from a Dockerfile, and kept by what they are made of."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docker.errors import ImageNotFound
from docker.utils.build import create_archive, exclude_paths

from environments.docker.image import image_id
from environments.docker.stream import ENGINE_ERRORS
from environments.errors import EnvironmentStartError, SettingsError
from environments.log import logger
from environments.model_view import plain
from environments.starting import current_start

if TYPE_CHECKING:
    from environments.docker.connections import BreakableClient

BUILT = "hermes-environments.build"
"""The label of a built image: the folder that it was built from."""
REPOSITORY = "hermes-build"
DOCKERFILE = "Dockerfile"
LAST_LINES = 20
"""Lines of a step that are told when it has failed."""
_PIECE = 1024 * 1024

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Build:
    """What an image is to be built from."""

    folder: Path
    """The build's context."""
    dockerfile: str = DOCKERFILE
    """The name of the Dockerfile in it."""

    @classmethod
    def of(cls, setting: str) -> Build:
        """Find the Dockerfile that a setting names by its path, or by its folder's.

        Raises:
            SettingsError: There is none.
        """
        path = Path(os.path.abspath(Path(setting).expanduser()))  # noqa: PTH100 - a link stays one, as it is named
        found = cls(path.parent, path.name) if path.is_file() else cls(path)
        if not (found.folder / found.dockerfile).is_file():
            raise SettingsError(
                f"docker_build is {setting!r}, and there is no {found.folder / found.dockerfile}; give the path of a "
                "Dockerfile, or of the folder that one is in"
            )
        return found

    def files(self) -> list[str]:
        """Return the paths of all that the engine is given, without what .dockerignore leaves out; sorted."""
        ignore = self.folder / ".dockerignore"
        lines = [line.strip() for line in ignore.read_text().splitlines()] if ignore.is_file() else []
        patterns = [line for line in lines if line and not line.startswith("#")]
        return sorted(exclude_paths(str(self.folder), patterns, dockerfile=self.dockerfile))

    def tag(self, files: Iterable[str]) -> str:
        """Return the tag of the image that files make. It depends on their names, modes and contents alone."""
        digest = hashlib.sha256(f"{self.dockerfile}\0".encode())
        for name in files:
            path = self.folder / name
            status = path.lstat()
            digest.update(f"{name}\0{status.st_mode:o}\0{status.st_size}\0".encode("utf-8", "surrogateescape"))
            if stat.S_ISLNK(status.st_mode):
                digest.update(os.fsencode(path.readlink()))
            elif stat.S_ISREG(status.st_mode):
                with path.open("rb") as file:
                    for piece in iter(lambda: file.read(_PIECE), b""):
                        digest.update(piece)
        return f"{REPOSITORY}:{digest.hexdigest()[:40]}"


def ensure_built(api: BreakableClient, build: Build) -> str:
    """Return the id of the image of a build, which is built if nothing of the same content was built before.

    Raises:
        EnvironmentStartError: It cannot be built. The last lines of the step that failed are told.
        StartStoppedError: The start that needs it was stopped, and with it the build.
    """
    try:
        files = build.files()
        tag = build.tag(files)
    except OSError as error:
        raise EnvironmentStartError(f"backend 'docker' cannot read what docker_build names: {error}") from error
    try:
        return image_id(api, tag)
    except ImageNotFound:
        pass
    _run(api, build, files, tag)
    return image_id(api, tag)


def _run(api: BreakableClient, build: Build, files: list[str], tag: str) -> None:
    start, output = current_start(), _Output(build)
    log.info("building %s as %s", build.folder, tag)
    start.tell(f"building {build.folder.name}")
    try:
        with start.aborting(api.break_off), tempfile.TemporaryFile() as context:
            create_archive(root=str(build.folder), files=files, fileobj=context)
            events = api.build(
                fileobj=context,
                custom_context=True,
                dockerfile=build.dockerfile,
                tag=tag,
                labels={BUILT: str(build.folder)},
                rm=True,
                forcerm=True,
                decode=True,
            )
            for event in events:  # to the end: docker-py closes no answer that is read in part
                output.take(event)
    except ENGINE_ERRORS as error:
        raise output.failed(getattr(error, "explanation", None) or str(error)) from error
    if output.error:
        raise output.failed(output.error)
    log.info("built %s as %s", build.folder, tag)


class _Output:
    """What a build prints.

    Args:
        build: What is built.
    """

    def __init__(self, build: Build) -> None:
        self._build = build
        self._step: deque[str] = deque(maxlen=LAST_LINES)
        self._rest = ""
        self.error = ""
        """Why the build has failed; empty if it has not."""

    def take(self, event: Mapping[str, Any]) -> None:
        """Take what the engine says, and tell each line."""
        self.error = str(event.get("error") or self.error)
        *lines, self._rest = (self._rest + str(event.get("stream") or "")).split("\n")
        for line in lines:
            if text := plain(line).strip():
                self._take_line(text)

    def _take_line(self, line: str) -> None:
        if line.lower().startswith("step "):
            self._step.clear()
        self._step.append(line)
        log.info("building %s: %s", self._build.folder.name, line)
        current_start().tell(f"building {self._build.folder.name}: {line}")

    def failed(self, why: str) -> EnvironmentStartError:
        """Return what to raise of a build that failed."""
        place = self._build.folder / self._build.dockerfile
        said = "".join(f"\n  {line}" for line in self._step)
        behind = f". Its last step said:{said}" if said else ""
        return EnvironmentStartError(f"backend 'docker' cannot build {place}: {plain(why).strip()}{behind}")

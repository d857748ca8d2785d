"""Images: pulled, built from a Dockerfile, and committed as snapshots."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
import tempfile
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from docker.errors import APIError, DockerException, ImageNotFound
from docker.utils.build import create_archive, exclude_paths

from environments.docker.client import ENGINE_ERRORS
from environments.docker.engine import reason
from environments.docker.target import FINGERPRINT, KEPT, OWNER, TASK
from environments.errors import EnvironmentStartError, SettingsError
from environments.log import logger
from environments.model_view import plain
from environments.owner import Owner
from environments.starting import current_start

if TYPE_CHECKING:
    from docker import APIClient

    from environments.docker.client import BreakableClient


PROGRESS_INTERVAL = 5.0
"""Seconds between two progress messages of a pull."""
BUILT = "hermes-environments.build"
"""The label of a built image, with its folder."""
BUILDS = "hermes-build"
LAST_LINES = 20
"""Lines of a failed step in the error."""
SNAPSHOTS = "hermes-snapshot"
SNAPSHOT = "hermes-environments.snapshot"
"""The label of a snapshot, with its task. Values of labels are percent-encoded, see `unquote`."""
FORK_OF = "hermes-environments.snapshot.owner"
"""The label of a snapshot for one fork, with the process of the fork, see `Owner`."""
_OF_CONTAINERS = (OWNER, TASK, FINGERPRINT, KEPT)
"""Labels of our containers. A user's container from a snapshot would inherit them and look like ours."""

log = logger(__name__)


def ensure_image(api: BreakableClient, image: str) -> str:
    """Return the id of an image. Pulls a missing image.

    Raises:
        EnvironmentStartError: The image cannot be pulled.
        StartStoppedError: The start was stopped, and with it the pull.
    """
    if found := _find(api, image):
        return found
    try:
        _pull(api, image)
        return _id(api, image)
    except ENGINE_ERRORS as error:
        raise EnvironmentStartError(
            f"backend 'docker' has no image {image}, and it cannot be pulled: {reason(error)}. Check its name, log in "
            "with `docker login` where its registry asks for that, or set TERMINAL_DOCKER_IMAGE to one of "
            "`docker images`"
        ) from error


def _id(api: APIClient, image: str) -> str:
    return str(api.inspect_image(image)["Id"])  # type: ignore[no-untyped-call]


def _find(api: APIClient, image: str) -> str | None:
    try:
        return _id(api, image)
    except ImageNotFound:
        return None


def _pull(api: BreakableClient, image: str) -> None:
    log.info("pulling image %s", image)
    start, action = current_start(), f"pulling image {image}"
    start.report(action)
    last_message = time.monotonic()
    layers: dict[str, tuple[int, int]] = {}  # bytes received and total bytes, by layer
    with start.aborting(api.abort):
        for event in api.pull(image, stream=True, decode=True):
            if "error" in event:
                raise DockerException(event["error"])
            layer, progress = event.get("id"), event.get("progressDetail") or {}
            if event.get("status") == "Downloading" and "total" in progress:
                layers[layer] = (progress["current"], progress["total"])
            elif event.get("status") == "Download complete" and layer in layers:
                layers[layer] = (layers[layer][1], layers[layer][1])
            if not layers:
                continue
            done, total = (sum(sizes) for sizes in zip(*layers.values(), strict=True))
            start.report(action, done, total)
            if time.monotonic() - last_message >= PROGRESS_INTERVAL:
                last_message = time.monotonic()
                log.info("%s: %.0f of %.0f MB so far", action, done / 1e6, total / 1e6)
    log.info("pulled image %s", image)


@dataclass(frozen=True, slots=True)
class Build:
    """A folder with a Dockerfile."""

    folder: Path
    """The build's context."""
    dockerfile: str = "Dockerfile"
    """Name of the Dockerfile in the folder."""

    @classmethod
    def of(cls, setting: str) -> Build:
        """Find the Dockerfile of a setting: its path, or the path of its folder.

        Raises:
            SettingsError: There is none.
        """
        path = Path(os.path.abspath(Path(setting).expanduser()))  # noqa: PTH100 - keeps links
        found = cls(path.parent, path.name) if path.is_file() else cls(path)
        if not (found.folder / found.dockerfile).is_file():
            raise SettingsError(
                f"backend 'docker': build is {setting!r}, and there is no {found.folder / found.dockerfile}; give "
                "the path of a Dockerfile, or of its folder"
            )
        return found

    def files(self) -> list[str]:
        """Return the sorted paths of the build's context, without those excluded by .dockerignore."""
        ignore = self.folder / ".dockerignore"
        lines = [line.strip() for line in ignore.read_text().splitlines()] if ignore.is_file() else []
        patterns = [line for line in lines if line and not line.startswith("#")]
        return sorted(exclude_paths(str(self.folder), patterns, dockerfile=self.dockerfile))

    def tag(self, files: Iterable[str]) -> str:
        """Return the image tag of some files: a digest of their names, modes and contents."""
        digest = hashlib.sha256(f"{self.dockerfile}\0".encode())
        for name in files:
            path = self.folder / name
            status = path.lstat()
            digest.update(f"{name}\0{status.st_mode:o}\0{status.st_size}\0".encode("utf-8", "surrogateescape"))
            if stat.S_ISLNK(status.st_mode):
                digest.update(os.fsencode(path.readlink()))
            elif stat.S_ISREG(status.st_mode):
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        return f"{BUILDS}:{digest.hexdigest()[:40]}"


def ensure_built(api: BreakableClient, build: Build) -> str:
    """Return the id of a build's image. Builds unless an image of the same content exists.

    Raises:
        EnvironmentStartError: The build failed. The error has the last lines of the failed step.
        StartStoppedError: The start was stopped, and with it the build.
    """
    try:
        files = build.files()
        tag = build.tag(files)
    except OSError as error:
        raise EnvironmentStartError(f"backend 'docker' cannot read the files of the setting build: {error}") from error
    if found := _find(api, tag):
        return found
    _run(api, build, files, tag)
    return _id(api, tag)


def _run(api: BreakableClient, build: Build, files: list[str], tag: str) -> None:
    start, name = current_start(), build.folder.name
    step: deque[str] = deque(maxlen=LAST_LINES)
    rest = failure = ""
    log.info("building %s as %s", build.folder, tag)
    start.report(f"building {name}")
    try:
        with start.aborting(api.abort), tempfile.TemporaryFile() as context:
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
            for event in events:  # to the end: docker-py never closes a partly read answer
                failure = str(event.get("error") or failure)
                *lines, rest = (rest + str(event.get("stream") or "")).split("\n")
                for line in filter(None, (plain(each).strip() for each in lines)):
                    if line.lower().startswith("step "):
                        step.clear()
                    step.append(line)
                    log.info("building %s: %s", name, line)
                    start.report(f"building {name}: {line}")
        if failure:
            raise DockerException(failure)
    except ENGINE_ERRORS as error:
        place, output = build.folder / build.dockerfile, "".join(f"\n  {line}" for line in step)
        behind = f". Output of its last step:{output}" if output else ""
        raise EnvironmentStartError(
            f"backend 'docker' cannot build {place}: {plain(reason(error)).strip()}{behind}"
        ) from error
    log.info("built %s as %s", build.folder, tag)


def commit(api: APIClient, container: str, task: str, name: str | None) -> str:
    """Make an image of a container of ours, and return its name.

    The container is not paused: a paused container is unusable for other commands, and a rootless Podman on cgroups
    v1 cannot pause. Variables of commands are no part of our containers, and so are absent from the image.

    Args:
        api: The engine.
        container: The container.
        task: Its task.
        name: Name of the snapshot; replaces an earlier snapshot of that name. None is a snapshot for one fork.

    Raises:
        docker.errors.APIError: The engine refused.
    """
    tag = name or f"fork-{secrets.token_hex(8)}"
    labels = {SNAPSHOT: task, **dict.fromkeys(_OF_CONTAINERS, "")}
    if name is None:
        labels[FORK_OF] = str(Owner.this_process())
    earlier = _find(api, f"{SNAPSHOTS}:{tag}")
    image = api.inspect_image(api.inspect_container(container)["Image"])["Config"]  # type: ignore[no-untyped-call]
    programs = {"ENTRYPOINT": image.get("Entrypoint"), "CMD": image.get("Cmd")}  # in place of our waiting shell
    changes = [f'LABEL "{key}"="{quote(value, safe="/:[] ")}"' for key, value in labels.items()]
    changes += [f"{kind} {json.dumps(program)}" for kind, program in programs.items() if program]
    api.commit(container, SNAPSHOTS, tag, pause=False, changes=changes)
    if earlier:
        with contextlib.suppress(APIError):  # already gone, or in use by a container
            if not api.inspect_image(earlier)["RepoTags"]:  # type: ignore[no-untyped-call]
                api.remove_image(earlier)
    return f"{SNAPSHOTS}:{tag}"


def remove_snapshot(api: APIClient, snapshot: str) -> None:
    """Remove a snapshot, if it exists.

    Raises:
        docker.errors.APIError: The engine refused, such as for a container that uses the snapshot.
    """
    with contextlib.suppress(ImageNotFound):
        api.remove_image(snapshot)

"""Snapshots: images that are committed from our containers."""

from __future__ import annotations

import contextlib
import json
import secrets
from typing import TYPE_CHECKING
from urllib.parse import quote

from docker.errors import APIError, ImageNotFound

from environments.docker.labels import FINGERPRINT, KEPT, OWNER, TASK
from environments.owner import Owner

if TYPE_CHECKING:
    from docker import APIClient

REPOSITORY = "hermes-snapshot"
SNAPSHOT = "hermes-environments.snapshot"
"""The label of a snapshot: the task that it was taken of. Values of labels are percent-encoded, see `unquote`."""
FORK_OF = "hermes-environments.snapshot.owner"
"""On a snapshot that was taken for one fork: the process that the fork belongs to, see `Owner`."""
_OF_CONTAINERS = (OWNER, TASK, FINGERPRINT, KEPT)
"""Labels of the container, which would make a container that a user makes of the image look like ours."""
_CONFLICT = 409


def commit(api: APIClient, container: str, task: str, name: str | None) -> str:
    """Make an image of a container of ours, and return its name.

    The container is not paused: a command beside this one would find it unusable, and a rootless Podman on cgroups v1
    cannot pause. The variables that commands see are no part of a container of ours, and so none of the image.

    Args:
        api: The engine.
        container: The container.
        task: Its task.
        name: The snapshot's name, which may have been given to an earlier one; None is a snapshot for one fork.

    Raises:
        docker.errors.APIError: The engine refused.
    """
    tag = name or f"fork-{secrets.token_hex(8)}"
    labels = {SNAPSHOT: task, **dict.fromkeys(_OF_CONTAINERS, "")}
    if name is None:
        labels[FORK_OF] = str(Owner.this_process())
    earlier = _id_of(api, f"{REPOSITORY}:{tag}")
    api.commit(
        container,
        REPOSITORY,
        tag,
        pause=False,
        changes=[f'LABEL "{key}"="{quote(value, safe="/:[] ")}"' for key, value in labels.items()]
        + _own_program(api, container),
    )
    if earlier and earlier != _id_of(api, f"{REPOSITORY}:{tag}"):
        with contextlib.suppress(APIError):  # a container that was made from it still needs it
            api.remove_image(earlier)
    return f"{REPOSITORY}:{tag}"


def _own_program(api: APIClient, container: str) -> list[str]:
    """Return what gives the image the program of the container's image, in place of the shell that we run."""
    image = api.inspect_image(api.inspect_container(container)["Image"])["Config"]  # type: ignore[no-untyped-call]
    programs = {"ENTRYPOINT": image.get("Entrypoint"), "CMD": image.get("Cmd")}
    return [f"{kind} {json.dumps(program)}" for kind, program in programs.items() if program]


def _id_of(api: APIClient, image: str) -> str | None:
    try:
        return str(api.inspect_image(image)["Id"])  # type: ignore[no-untyped-call]
    except ImageNotFound:
        return None


def remove_snapshot(api: APIClient, snapshot: str) -> None:
    """Remove a snapshot, if it is there.

    Raises:
        docker.errors.APIError: The engine refused, such as for a container that was made from it.
    """
    with contextlib.suppress(ImageNotFound):
        api.remove_image(snapshot)

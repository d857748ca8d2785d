"""Getting the image of a container, and saying how far that is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from docker.errors import DockerException, ImageNotFound

from environments.docker.stream import ENGINE_ERRORS
from environments.errors import EnvironmentStartError
from environments.log import logger

if TYPE_CHECKING:
    from docker import APIClient

PROGRESS_INTERVAL = 5.0
"""Seconds between two messages while an image is pulled."""

log = logger(__name__)


def ensure_image(api: APIClient, image: str) -> str:
    """Return the id of an image, pulling it when the engine does not have it.

    Raises:
        EnvironmentStartError: It cannot be pulled.
    """
    try:
        return image_id(api, image)
    except ImageNotFound:
        pass
    try:
        _pull(api, image)
        return image_id(api, image)
    except ENGINE_ERRORS as error:
        reason = getattr(error, "explanation", None) or error
        raise EnvironmentStartError(
            f"backend 'docker' has no image {image}, and it cannot be pulled: {reason}. Check its name, log in with "
            "`docker login` where its registry asks for that, or set TERMINAL_DOCKER_IMAGE to one of `docker images`"
        ) from error


def image_id(api: APIClient, image: str) -> str:
    """Return the id of an image that the engine has.

    Raises:
        ImageNotFound: It has none of this name.
    """
    return str(api.inspect_image(image)["Id"])  # type: ignore[no-untyped-call]


def _pull(api: APIClient, image: str) -> None:
    log.info("pulling image %s", image)
    layers: dict[str, tuple[int, int]] = {}
    said = time.monotonic()
    for event in api.pull(image, stream=True, decode=True):
        if "error" in event:
            raise DockerException(event["error"])
        progress = event.get("progressDetail") or {}
        if event.get("status") == "Downloading" and "total" in progress:
            layers[event["id"]] = (progress["current"], progress["total"])
        elif event.get("status") == "Download complete" and event["id"] in layers:
            layers[event["id"]] = (layers[event["id"]][1],) * 2
        if layers and time.monotonic() - said >= PROGRESS_INTERVAL:
            said = time.monotonic()
            done, total = (sum(sizes) / 1e6 for sizes in zip(*layers.values(), strict=True))
            log.info("pulling image %s: %.0f of %.0f MB so far", image, done, total)
    log.info("pulled image %s", image)

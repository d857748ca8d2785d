"""Getting the image of a container, and saying how far that is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from docker.errors import DockerException, ImageNotFound

from environments.docker.stream import ENGINE_ERRORS
from environments.errors import EnvironmentStartError
from environments.log import logger
from environments.starting import current_start

if TYPE_CHECKING:
    from docker import APIClient

    from environments.docker.connections import BreakableClient

PROGRESS_INTERVAL = 5.0
"""Seconds between two messages while an image is pulled."""

log = logger(__name__)


def ensure_image(api: BreakableClient, image: str) -> str:
    """Return the id of an image, pulling it when the engine does not have it.

    Raises:
        EnvironmentStartError: It cannot be pulled.
        StartStoppedError: The start that needs it was stopped, and with it the pull.
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


def _pull(api: BreakableClient, image: str) -> None:
    log.info("pulling image %s", image)
    start, what = current_start(), f"pulling image {image}"
    start.tell(what)
    said = time.monotonic()
    layers = _Layers()
    with start.aborting(api.break_off):
        for event in api.pull(image, stream=True, decode=True):
            if "error" in event:
                raise DockerException(event["error"])
            layers.take(event)
            if not layers.total:
                continue
            start.tell(what, layers.done, layers.total)
            if time.monotonic() - said >= PROGRESS_INTERVAL:
                said = time.monotonic()
                log.info("%s: %.0f of %.0f MB so far", what, layers.done / 1e6, layers.total / 1e6)
    log.info("pulled image %s", image)


class _Layers:
    """The layers of an image that are being downloaded, as far as their sizes are known."""

    def __init__(self) -> None:
        self._sizes: dict[str, tuple[int, int]] = {}

    def take(self, event: Mapping[str, Any]) -> None:
        """Take what the engine says of one of them."""
        progress = event.get("progressDetail") or {}
        if event.get("status") == "Downloading" and "total" in progress:
            self._sizes[event["id"]] = (progress["current"], progress["total"])
        elif event.get("status") == "Download complete" and event["id"] in self._sizes:
            self._sizes[event["id"]] = (self._sizes[event["id"]][1],) * 2

    @property
    def done(self) -> int:
        """Bytes that have come."""
        return sum(done for done, _ in self._sizes.values())

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(total for _, total in self._sizes.values())

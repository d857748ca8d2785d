"""The image an instance is started from: a file or a sandbox directory here, or a URI that is pulled once."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from spython.utils import split_uri  # type: ignore[import-untyped]

from environments.claim import Claim
from environments.config import hermes_home
from environments.errors import EnvironmentStartError
from environments.singularity.client import Client
from environments.starting import current_start

DEFAULT_IMAGE = "docker://python:3.12-slim"
CLAIM_POLL = 0.2
"""Seconds between looks at a pull that another process has under way."""
_URI = re.compile(r"[a-z][a-z0-9+.-]*://")


def resolve_image(client: Client, image: str | None) -> str:
    """Return the path of an image that an instance can be started from.

    Args:
        client: Pulls what is not here.
        image: A path, or a URI; None is `DEFAULT_IMAGE`.

    Raises:
        EnvironmentStartError: There is no such image, or no instance can be started from it.
    """
    image = image or DEFAULT_IMAGE
    if _URI.match(image):
        return str(_pulled(client, image))
    path = Path(image).expanduser().absolute()
    if not path.exists():
        raise EnvironmentStartError(
            f"backend 'singularity': there is no image {path}; set TERMINAL_SINGULARITY_IMAGE to a SIF file, a sandbox "
            "directory, or a URI such as docker://python:3.12-slim"
        )
    # Commands run in a plain root directory too, but an instance has no action script to start with there.
    if path.is_dir() and not (path / ".singularity.d").exists():
        raise EnvironmentStartError(
            f"backend 'singularity': {path} is a plain root directory, and an instance needs a sandbox; build one: "
            f"`{Path(client.program).name} build --sandbox NEW_DIRECTORY {path}`, and set TERMINAL_SINGULARITY_IMAGE "
            "to that directory"
        )
    return str(path)


def _pulled(client: Client, uri: str) -> Path:
    _, name = split_uri(uri)
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:60]
    folder = hermes_home() / "singularity" / "images"
    target = folder / f"{readable}-{hashlib.sha256(uri.encode()).hexdigest()[:12]}.sif"
    if target.exists():
        return target
    claim = Claim(f"singularity-{target.name}")
    start = current_start()
    while not claim.take():
        start.tell(f"waiting for another process that pulls {uri}")
        start.pause(CLAIM_POLL)
    part = target.with_suffix(".part")
    try:
        if not target.exists():  # another process may have pulled it while we waited
            target.parent.mkdir(parents=True, exist_ok=True)
            _pull(client, uri, part)
            part.replace(target)
    finally:
        part.unlink(missing_ok=True)
        claim.release()
    return target


def _pull(client: Client, uri: str, into: Path) -> None:
    start, what = current_start(), f"pulling {uri}"
    start.tell(what)

    def tell(line: str) -> None:
        head, _, text = line.partition(":")
        if head == "INFO" and text.strip():
            start.tell(f"{what}: {text.strip()}")

    outcome = client.run("pull", "--force", str(into), uri, whole_environment=True, on_line=tell)
    if not outcome.ok:
        raise EnvironmentStartError(
            f"backend 'singularity': cannot pull {uri}: {outcome.reason}. Check the name and the network, or set "
            "TERMINAL_SINGULARITY_IMAGE to a SIF file or a sandbox directory that is here"
        )

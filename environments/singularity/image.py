"""The image an instance is started from, on the engine's machine: a file, a sandbox directory, or a URI."""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath

from spython.utils import split_uri  # type: ignore[import-untyped]

from environments.claim import Claim
from environments.errors import EnvironmentStartError
from environments.owner import Owner
from environments.singularity.client import Client
from environments.singularity.machine import Machine
from environments.starting import current_start, unstoppable

DEFAULT_IMAGE = "docker://python:3.12-slim"
CLAIM_POLL = 0.2
"""Seconds between looks at a pull that another process has under way."""
_URI = re.compile(r"[a-z][a-z0-9+.-]*://")


def resolve_image(client: Client, image: str | None) -> str:
    """Return the path of an image that an instance can be started from.

    Args:
        client: Pulls what is not on its machine.
        image: A path, or a URI; None is `DEFAULT_IMAGE`.

    Raises:
        EnvironmentStartError: There is no such image, or no instance can be started from it.
    """
    image = image or DEFAULT_IMAGE
    if _URI.match(image):
        return str(_pulled(client, image))
    machine = client.machine
    path = machine.absolute(image)
    where = f" on {machine.place}" if machine.place else ""
    kind = machine.kind(path)
    if not kind:
        raise EnvironmentStartError(
            f"backend 'singularity': there is no image {path}{where}; set TERMINAL_SINGULARITY_IMAGE to a SIF file, a "
            f"sandbox directory{' there' if where else ''}, or a URI such as docker://python:3.12-slim"
        )
    # Commands run in a plain root directory too, but an instance has no action script to start with there.
    if kind == "directory" and not machine.kind(path / ".singularity.d"):
        raise EnvironmentStartError(
            f"backend 'singularity': {path}{where} is a plain root directory, and an instance needs a sandbox; build "
            f"one: `{PurePosixPath(client.program).name} build --sandbox NEW_DIRECTORY {path}`, and set "
            "TERMINAL_SINGULARITY_IMAGE to that directory"
        )
    return str(path)


def _pulled(client: Client, uri: str) -> PurePosixPath:
    machine = client.machine
    _, name = split_uri(uri)
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:60]
    folder = machine.folder / "images"
    target = folder / f"{readable}-{hashlib.sha256(uri.encode()).hexdigest()[:12]}.sif"
    if machine.kind(target):
        return target
    claim = Claim(claim_name(machine, target.name))
    start = current_start()
    while not claim.take():
        start.tell(f"waiting for another process that pulls {uri}")
        start.pause(CLAIM_POLL)
    # The claim is this machine's, so that processes of others may pull the same image there.
    part = target.with_suffix(f".{Owner.this_process().mark.partition('-')[0]}.part")
    try:
        if not machine.kind(target):  # another process may have pulled it while we waited
            machine.make_folder(folder)
            _pull(client, uri, part)
            machine.rename(part, target)
    finally:
        try:
            with unstoppable():
                machine.remove(part)
        finally:
            claim.release()
    return target


def claim_name(machine: Machine, what: str) -> str:
    """Return the name of a claim, which processes of this machine have among them, on something of a machine."""
    where = f"{hashlib.sha256(machine.place.encode()).hexdigest()[:8]}-" if machine.place else ""
    return f"singularity-{where}{what}"


def _pull(client: Client, uri: str, into: PurePosixPath) -> None:
    start, what = current_start(), f"pulling {uri}"
    start.tell(what)

    def tell(line: str) -> None:
        head, _, text = line.partition(":")
        if head == "INFO" and text.strip():
            start.tell(f"{what}: {text.strip()}")

    outcome = client.run("pull", "--force", str(into), uri, whole_environment=True, on_line=tell)
    if not outcome.ok:
        there = "there" if client.machine.place else "here"
        raise EnvironmentStartError(
            f"backend 'singularity': cannot pull {uri}: {outcome.reason}. Check the name and the network, or set "
            f"TERMINAL_SINGULARITY_IMAGE to a SIF file or a sandbox directory that is {there}"
        )

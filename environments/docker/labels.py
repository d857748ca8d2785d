"""What is written on our containers, so that they are found again: by the next process, or when theirs has died."""

from __future__ import annotations

import hashlib

from environments.owner import Owner
from environments.settings import hermes_home

OWNER = "hermes-environments.owner"
"""The process the container belongs to, see `Owner`."""
TASK = "hermes-environments.task"
FINGERPRINT = "hermes-environments.fingerprint"
KEPT = "hermes-environments.kept"
"""On a container that outlives its process: the host and `HERMES_HOME` where it can be taken up again."""

RUNNING = ("running", "paused")
"""States of a container in which it has processes."""


def labels(task: str, fingerprint: str, *, kept: bool) -> dict[str, str]:
    """Return the labels of a new container."""
    own = {OWNER: str(Owner.this_process()), TASK: task, FINGERPRINT: fingerprint}
    return {**own, KEPT: kept_here()} if kept else own


def kept_here() -> str:
    """Return the value of `KEPT` for this host and `HERMES_HOME`, whose claims say which containers are in use."""
    return f"{Owner.this_process().host} {hermes_home().absolute()}"


def kept_where(value: str) -> tuple[str, str]:
    """Return the host and the `HERMES_HOME` that a value of `KEPT` names."""
    host, _, home = value.partition(" ")
    return host, home


def kept_filter(task: str, fingerprint: str) -> list[str]:
    """Return the engine's filter for the containers kept here for a task, made in this way."""
    return [f"{name}={value}" for name, value in ((TASK, task), (FINGERPRINT, fingerprint), (KEPT, kept_here()))]


def claim_name(task: str, fingerprint: str) -> str:
    """Return the name of the claim on a kept container."""
    return "docker-" + hashlib.sha256(f"{task}\0{fingerprint}".encode()).hexdigest()[:24]

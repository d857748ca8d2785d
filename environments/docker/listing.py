"""Containers and snapshots of ours, made by any process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from docker.errors import NotFound

from environments.claim import Claim
from environments.docker.engine import DockerEngine, connected, start_errors
from environments.docker.image import FORK_OF, SNAPSHOT, remove_snapshot
from environments.docker.target import FINGERPRINT, KEPT, OWNER, RUNNING, TASK, claim_name, remove
from environments.errors import EnvironmentStartError
from environments.found_target import FoundTarget
from environments.owner import UNKNOWN, Owner
from environments.settings import EnvironmentSettings

if TYPE_CHECKING:
    from docker import APIClient

_NO_TAG = "<none>:<none>"
"""The tag that some engines report for an image without tags."""


def list_targets(settings: EnvironmentSettings) -> Iterator[FoundTarget]:
    """Yield our containers, and then our snapshots: containers may need them.

    Args:
        settings: May name an engine on another machine. The local engine is then listed too, if there is one.

    Raises:
        EnvironmentStartError: The engine does not answer.
    """
    yield from _targets(settings, DockerEngine(settings).identity)
    if settings.over:
        with contextlib.suppress(EnvironmentStartError):
            yield from _targets(None, "")


def _targets(settings: EnvironmentSettings | None, place: str) -> Iterator[FoundTarget]:
    with connected(settings) as api, start_errors("the containers cannot be listed"):
        found = api.containers(all=True, size=True, filters={"label": [OWNER]})
    for about in found:
        if about["Labels"][OWNER]:  # empty on a user's container from a snapshot
            yield _target(settings, place, about)
    with connected(settings) as api, start_errors("the snapshots cannot be listed"):
        snapshots = [_snapshot(api, settings, place, about) for about in api.images(filters={"label": [SNAPSHOT]})]
    yield from snapshots


def _target(settings: EnvironmentSettings | None, place: str, about: Mapping[str, Any]) -> FoundTarget:
    container = str(about["Id"])
    labels = {key: value for key, value in about["Labels"].items() if value}  # empty ones come from a snapshot
    owner, runs = Owner.parse(labels[OWNER]) or UNKNOWN, about["State"] in RUNNING
    claim = _claim(labels, runs=runs)
    found = FoundTarget(
        "container",
        container,
        "running" if runs else "stopped",
        partial(_remove, settings, container),
        owner=UNKNOWN if KEPT in labels else owner,
        set_aside=partial(_stop, settings, container) if KEPT in labels else None,
        task=labels.get(TASK, ""),
        name=str((about.get("Names") or [""])[0]).lstrip("/"),
        place=place,
        created=float(about["Created"]),
        size=int(about.get("SizeRw") or 0),
    )
    if claim is None:
        return found
    found = replace(found, owner=None, claim=claim)
    # The label names the process that created the container, usually also its present user.
    return replace(found, owner=owner) if found.use == owner.standing == "live" else found


def _snapshot(
    api: APIClient, settings: EnvironmentSettings | None, place: str, about: Mapping[str, Any]
) -> FoundTarget:
    labels = {key: unquote(value) for key, value in about["Labels"].items()}
    tag = next((tag for tag in about.get("RepoTags") or () if tag != _NO_TAG), "")
    size = int(about["Size"])
    with contextlib.suppress(NotFound):
        size -= int(api.inspect_image(about["ParentId"])["Size"]) if about.get("ParentId") else 0  # type: ignore[no-untyped-call]
    return FoundTarget(
        "snapshot",
        str(about["Id"]).removeprefix("sha256:"),
        "kept",
        partial(_remove_snapshot, settings, tag or str(about["Id"])),
        owner=(Owner.parse(labels[FORK_OF]) or UNKNOWN) if FORK_OF in labels else None,
        task=labels[SNAPSHOT],
        name=tag.rpartition("/")[2],
        place=place,
        created=float(about["Created"]),
        size=size if size >= 0 else None,  # Podman counts layers of a parent twice
    )


def _claim(labels: Mapping[str, str], *, runs: bool) -> Claim | None:
    """Return the claim on a kept container; None if the container is not kept, or its claim is out of sight."""
    if KEPT not in labels:
        return None
    host, _, home = labels[KEPT].partition(" ")
    if host != Owner.this_process().host or (runs and not Path(home).is_dir()):
        return None
    return Claim(claim_name(labels.get(TASK, ""), labels.get(FINGERPRINT, "")), Path(home))


def _stop(settings: EnvironmentSettings | None, container: str) -> None:
    failure = start_errors(f"container {container[:12]} cannot be stopped")
    with connected(settings) as api, failure, contextlib.suppress(NotFound):
        api.stop(container, timeout=0)  # no error for a stopped container


def _remove(settings: EnvironmentSettings | None, container: str) -> None:
    with connected(settings) as api, start_errors(f"container {container[:12]} cannot be removed"):
        remove(api, container)


def _remove_snapshot(settings: EnvironmentSettings | None, snapshot: str) -> None:
    with connected(settings) as api, start_errors(f"snapshot {snapshot} cannot be removed"):
        remove_snapshot(api, snapshot)

"""Containers whose process has died: removed, or stopped where their files are to be kept."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from docker.errors import NotFound

from environments.claim import Claim
from environments.docker.engine import reported, visited
from environments.docker.labels import FINGERPRINT, KEPT, OWNER, RUNNING, TASK, claim_name, kept_here
from environments.docker.target import remove
from environments.errors import EnvironmentStartError
from environments.owner import Orphan, Owner
from environments.settings import EnvironmentSettings

if TYPE_CHECKING:
    from docker import APIClient

    from environments.docker.client import BreakableClient


def find_orphans(settings: EnvironmentSettings) -> Iterator[Orphan]:
    """Go through our containers whose owner is a process of this machine that has ended.

    Args:
        settings: May name an engine on another machine, where they are looked for too. This one then need not have any.

    Raises:
        EnvironmentStartError: The engine does not answer.
    """
    with visited(settings) as api:
        yield from _orphans(api)
    if settings.over:
        with contextlib.suppress(EnvironmentStartError), visited(None) as api:
            yield from _orphans(api)


def _orphans(api: BreakableClient) -> Iterator[Orphan]:
    with reported("the containers cannot be listed"):
        found = api.containers(all=True, filters={"label": [OWNER]})
    for container in found:
        if orphan := _orphan(api, str(container["Id"]), container["Labels"], str(container["State"])):
            yield orphan


def _orphan(api: APIClient, container: str, labels: Mapping[str, str], state: str) -> Orphan | None:
    what = f"container {container[:12]} of task {labels.get(TASK, '')}"
    if KEPT in labels:
        here = labels[KEPT] == kept_here() and state in RUNNING
        return Orphan(f"stopped {what}", partial(_stop, api, container, labels)) if here and _is_free(labels) else None
    owner = Owner.parse(labels[OWNER])
    if owner is None or not owner.is_gone:
        return None
    return Orphan(f"removed {what}, whose process {owner.pid} has ended", partial(_remove, api, container))


def _claim(labels: Mapping[str, str]) -> Claim:
    return Claim(claim_name(labels.get(TASK, ""), labels.get(FINGERPRINT, "")))


def _is_free(labels: Mapping[str, str]) -> bool:
    claim = _claim(labels)
    free = claim.take()
    claim.release()
    return free


def _stop(api: APIClient, container: str, labels: Mapping[str, str]) -> None:
    claim = _claim(labels)
    if claim.take():  # nobody has taken the container up since it was found
        try:
            with reported(f"container {container[:12]} cannot be stopped"), contextlib.suppress(NotFound):
                api.stop(container, timeout=0)  # no error if it has stopped since it was found
        finally:
            claim.release()


def _remove(api: APIClient, container: str) -> None:
    with reported(f"container {container[:12]} cannot be removed"):
        remove(api, container)

"""Our containers, whoever has them: those that run, and those that are kept."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from environments.claim import Claim
from environments.docker.engine import Engine, reported, visited
from environments.docker.labels import FINGERPRINT, KEPT, OWNER, RUNNING, TASK, claim_name, kept_where
from environments.docker.target import remove
from environments.errors import EnvironmentStartError
from environments.found_target import FoundTarget, Use, refuse_use, unclaimed, use_of_kept
from environments.owner import Owner
from environments.settings import EnvironmentSettings


def find_targets(settings: EnvironmentSettings) -> Iterator[FoundTarget]:
    """Go through our containers.

    Args:
        settings: May name an engine on another machine, where they are looked for too. This one then need not have any.

    Raises:
        EnvironmentStartError: The engine does not answer.
    """
    yield from _targets(settings, Engine(settings).identity)
    if settings.over:
        with contextlib.suppress(EnvironmentStartError):
            yield from _targets(None, "")


def _targets(settings: EnvironmentSettings | None, place: str) -> Iterator[FoundTarget]:
    with visited(settings) as api, reported("the containers cannot be listed"):
        found = api.containers(all=True, size=True, filters={"label": [OWNER]})
    for about in found:
        yield _target(settings, place, about)


def _target(settings: EnvironmentSettings | None, place: str, about: Mapping[str, Any]) -> FoundTarget:
    container, labels = str(about["Id"]), about["Labels"]
    owner, runs = Owner.parse(labels[OWNER]), about["State"] in RUNNING
    use = _use(labels, owner, runs=runs)
    return FoundTarget(
        "container",
        container,
        "running" if runs else "stopped",
        use,
        partial(_remove, settings, container, labels),
        task=labels.get(TASK, ""),
        name=str((about.get("Names") or [""])[0]).lstrip("/"),
        place=place,
        pid=owner.pid if owner and use == owner.standing == "live" else None,
        created=float(about["Created"]),
        size=int(about.get("SizeRw") or 0),
    )


def _use(labels: Mapping[str, str], owner: Owner | None, *, runs: bool) -> Use:
    if KEPT not in labels:
        return owner.standing if owner else "elsewhere"
    claim = _claim(labels)
    return use_of_kept("live", claim, runs=runs) if claim else "elsewhere"


def _claim(labels: Mapping[str, str]) -> Claim | None:
    """Return the claim on a container that is kept; None if those of another machine have it."""
    host, home = kept_where(labels[KEPT])
    if host != Owner.this_process().host:
        return None
    return Claim(claim_name(labels.get(TASK, ""), labels.get(FINGERPRINT, "")), Path(home))


def _remove(settings: EnvironmentSettings | None, container: str, labels: Mapping[str, str], force: bool) -> None:
    what = f"backend 'docker': container {container[:12]}"
    claim = _claim(labels) if KEPT in labels else None
    with contextlib.ExitStack() as held:
        if claim:
            held.enter_context(unclaimed(claim, what, force))
        else:
            refuse_use(what, _use(labels, Owner.parse(labels[OWNER]), runs=True), force)
        api = held.enter_context(visited(settings))
        with reported(f"container {container[:12]} cannot be removed"):
            remove(api, container)

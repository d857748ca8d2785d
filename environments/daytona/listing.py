"""Our sandboxes and snapshots, made by any process."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from environments.claim import Claim
from environments.daytona.sandbox import end, state_of
from environments.daytona.service import connect, has_credentials, reported, retried, sdk
from environments.daytona.settings import FORK
from environments.daytona.snapshots import all_snapshots, delete
from environments.found_target import KEPT, OWNER, TASK, FoundTarget, owner_of
from environments.loop import run
from environments.owner import UNKNOWN, Owner
from environments.short_commands.sandbox import claim_name

if TYPE_CHECKING:
    from daytona_api_client import SnapshotDto


def list_targets() -> Iterator[FoundTarget]:
    """Go through our sandboxes and snapshots. Without credentials there are none.

    Raises:
        EnvironmentStartError: The service does not answer.
    """
    if has_credentials():
        for sandbox in run(lambda _: _all()):
            if OWNER in sandbox.labels:
                yield _target(sandbox)
        for snapshot in run(lambda _: _all_snapshots()):
            yield _snapshot(snapshot)


async def _all() -> list[sdk.AsyncSandbox]:
    service = await connect()
    with reported("sandboxes cannot be listed"):
        return await retried(partial(listed, service), "sandboxes cannot be listed")


async def listed(service: sdk.AsyncDaytona, query: sdk.ListSandboxesQuery | None = None) -> list[sdk.AsyncSandbox]:
    """Return the sandboxes that a query finds."""
    return [sandbox async for sandbox in service.list(query)]


def _target(sandbox: sdk.AsyncSandbox) -> FoundTarget:
    labels = sandbox.labels
    key = labels.get(KEPT)
    return FoundTarget(
        "sandbox",
        sandbox.id,
        "running" if state_of(sandbox) == "started" else "stopped",
        partial(_end, sandbox, kept=False),
        owner=owner_of(labels),
        claim=Claim(claim_name("daytona", key)) if key else None,
        set_aside=partial(_end, sandbox, kept=True) if key else None,
        task=labels.get(TASK, ""),
        name=sandbox.name or "",
        created=_time(sandbox.created_at),
    )


async def _all_snapshots() -> list[SnapshotDto]:
    service = await connect()
    with reported("snapshots cannot be listed"):
        return [snapshot async for snapshot in all_snapshots(service)]


def _snapshot(snapshot: SnapshotDto) -> FoundTarget:
    name = snapshot.name
    owner = (Owner.in_name(name.removeprefix(FORK)) or UNKNOWN) if name.startswith(FORK) else None
    created = snapshot.created_at.timestamp()
    remove = partial(_delete, snapshot.id)
    return FoundTarget("snapshot", snapshot.id, "kept", remove, owner=owner, name=name, created=created)


def _delete(snapshot: str) -> None:
    run(lambda _: _deleted(snapshot))


async def _deleted(snapshot: str) -> None:
    service = await connect()
    with reported(f"snapshot {snapshot} cannot be deleted"):
        await delete(service, snapshot)


def _time(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


def _end(sandbox: sdk.AsyncSandbox, *, kept: bool) -> None:
    with reported(f"sandbox {sandbox.id} cannot be ended"):
        run(lambda _: end(sandbox, kept=kept))

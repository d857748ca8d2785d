"""Sandboxes and snapshots of ours, made by any process."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from environments.claim import Claim
from environments.daytona import snapshots
from environments.daytona.sandbox import end, state_of
from environments.daytona.service import connect, has_credentials, retry, sdk, start_errors
from environments.daytona.settings import FORK
from environments.found_target import KEPT, OWNER, TASK, FoundTarget, owner_of
from environments.loop import run
from environments.owner import UNKNOWN, Owner
from environments.short_commands.sandbox import claim_name

if TYPE_CHECKING:
    from daytona_api_client import SnapshotDto


def list_targets() -> Iterator[FoundTarget]:
    """Yield our sandboxes and snapshots. Without credentials there are none.

    Raises:
        EnvironmentStartError: The service does not answer.
    """
    if has_credentials():
        yield from map(_sandbox, run(lambda _: _sandboxes()))
        yield from map(_snapshot, run(lambda _: _snapshots()))


async def _sandboxes() -> list[sdk.AsyncSandbox]:
    client = await connect()
    with start_errors("sandboxes cannot be listed"):
        found = await retry(partial(listed, client), "sandboxes cannot be listed")
    return [sandbox for sandbox in found if OWNER in sandbox.labels]


async def listed(client: sdk.AsyncDaytona, query: sdk.ListSandboxesQuery | None = None) -> list[sdk.AsyncSandbox]:
    """Return the sandboxes of a query."""
    return [sandbox async for sandbox in client.list(query)]


def _sandbox(sandbox: sdk.AsyncSandbox) -> FoundTarget:
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


async def _snapshots() -> list[SnapshotDto]:
    client = await connect()
    with start_errors("snapshots cannot be listed"):
        return await snapshots.listed(client)


def _snapshot(snapshot: SnapshotDto) -> FoundTarget:
    name = snapshot.name
    owner = (Owner.in_name(name.removeprefix(FORK)) or UNKNOWN) if name.startswith(FORK) else None
    created = snapshot.created_at.timestamp()
    remove = partial(run, lambda _: _delete(snapshot.id))
    return FoundTarget("snapshot", snapshot.id, "kept", remove, owner=owner, name=name, created=created)


async def _delete(snapshot: str) -> None:
    client = await connect()
    with start_errors(f"snapshot {snapshot} cannot be deleted"):
        await snapshots.delete(client, snapshot)


def _time(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


def _end(sandbox: sdk.AsyncSandbox, *, kept: bool) -> None:
    with start_errors(f"sandbox {sandbox.id} cannot be ended"):
        run(lambda _: end(sandbox, kept=kept))

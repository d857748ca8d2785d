"""Snapshots of users and of forks. They are found by name, as Daytona's snapshots have no labels."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING

from environments.daytona.service import sdk, service, service_host
from environments.daytona.settings import FORK, NAMED
from environments.errors import TerminalError, UnsupportedError
from environments.owner import Owner

if TYPE_CHECKING:
    from daytona_api_client import SnapshotDto

SNAPSHOT_TIMEOUT = 600.0
"""Seconds to take a snapshot, and until sandboxes can use the snapshot."""
_POLL = 1.0
"""Seconds between polls of the state."""
_PAGE = 100
_FAILED = ("error", "build_failed")
_UNKNOWN_CALL = (404, 405, 501)
"""Status codes for a call that a service does not support."""


async def create(client: sdk.AsyncDaytona, sandbox: sdk.AsyncSandbox, name: str | None) -> str:
    """Take a snapshot of a sandbox, and return the name at Daytona.

    Args:
        client: The connection.
        sandbox: The sandbox.
        name: The user's name; replaces an earlier snapshot of this name. None is a snapshot for one fork.

    Raises:
        UnsupportedError: The service has no snapshots.
        TerminalError: The snapshot failed.
    """
    own = f"{NAMED}{name}" if name else f"{FORK}{Owner.this_process().mark}-{secrets.token_hex(6)}"
    if name:
        await delete(client, own)
    has_failed = False

    async def attempt() -> None:
        nonlocal has_failed
        try:
            await sandbox.create_snapshot(own, timeout=SNAPSHOT_TIMEOUT)
        except sdk.DaytonaConflictError:
            if not has_failed:  # else an earlier attempt has succeeded without an answer
                raise
        except service.errors as error:
            has_failed = True
            if isinstance(error, sdk.DaytonaError) and error.status_code in _UNKNOWN_CALL:
                await sandbox.refresh_data()  # raises if the sandbox itself is unknown
                raise UnsupportedError(
                    f"backend 'daytona': the service at {service_host()} takes no snapshots of sandboxes: "
                    f"{service.reason(error)}"
                ) from None
            raise

    await service.retry(attempt, "no snapshot can be taken")
    await _await_active(client, own)
    return own


async def _await_active(client: sdk.AsyncDaytona, name: str) -> None:
    """Wait until a snapshot is ready for sandboxes."""
    deadline = time.monotonic() + SNAPSHOT_TIMEOUT
    while True:
        snapshot = await service.retry(partial(client.snapshot.get, name), "the state of a snapshot is unknown")
        state = str(getattr(snapshot.state, "value", snapshot.state))
        if state == "active":
            return
        if state in _FAILED or time.monotonic() > deadline:
            raise TerminalError(
                f"backend 'daytona': snapshot {name} is in state {state}: {snapshot.error_reason or 'no reason'}; take "
                "it again"
            )
        await asyncio.sleep(_POLL)


async def delete(client: sdk.AsyncDaytona, name: str) -> None:
    """Delete a snapshot, if present. Sandboxes created from the snapshot keep running."""
    with contextlib.suppress(sdk.DaytonaNotFoundError):
        await service.retry(partial(client.snapshot.delete, name), f"snapshot {name} cannot be deleted")


async def listed(client: sdk.AsyncDaytona) -> list[SnapshotDto]:
    """Return our snapshots."""
    found: list[SnapshotDto] = []
    number, pages = 1, 1
    while number <= pages:
        page = await service.retry(partial(client.snapshot.list, number, _PAGE), "snapshots cannot be listed")
        found += [snapshot for snapshot in page.items if snapshot.name.startswith((NAMED, FORK))]
        number, pages = number + 1, page.total_pages
    return found

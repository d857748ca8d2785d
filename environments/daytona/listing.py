"""Our sandboxes, made by any process: those that run, and those that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial

from environments.claim import Claim
from environments.daytona.sandbox import claim_name, end, state_of
from environments.daytona.service import connect, has_credentials, reported, retried, sdk
from environments.found_target import KEPT, OWNER, TASK, FoundTarget, owner_of
from environments.loop import run


def list_targets() -> Iterator[FoundTarget]:
    """Go through our sandboxes. Without credentials there are none.

    Raises:
        EnvironmentStartError: The service does not answer.
    """
    if has_credentials():
        for sandbox in run(lambda _: _all()):
            if OWNER in sandbox.labels:
                yield _target(sandbox)


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
        claim=Claim(claim_name(key)) if key else None,
        set_aside=partial(_end, sandbox, kept=True) if key else None,
        task=labels.get(TASK, ""),
        name=sandbox.name or "",
        created=_time(sandbox.created_at),
    )


def _time(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


def _end(sandbox: sdk.AsyncSandbox, *, kept: bool) -> None:
    with reported(f"sandbox {sandbox.id} cannot be ended"):
        run(lambda _: end(sandbox, kept=kept))

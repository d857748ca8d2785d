"""Our sandboxes, whoever has them: those that run, and those that are kept."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime
from functools import partial

from environments.claim import Claim
from environments.daytona.sandbox import claim_name, end, state_of
from environments.daytona.service import connect, has_credentials, reported, retried, sdk
from environments.found_target import KEPT, OWNER, TASK, FoundTarget, Use, refuse_use, unclaimed, use_of_kept
from environments.loop import run
from environments.owner import standing_of_mark


def our_sandboxes() -> list[sdk.AsyncSandbox]:
    """Return all sandboxes that are ours. Without credentials there are none.

    Raises:
        EnvironmentStartError: The service does not answer.
    """
    if not has_credentials():
        return []
    found = run(lambda _: _listed())
    return [sandbox for sandbox in found if OWNER in sandbox.labels]


async def _listed() -> list[sdk.AsyncSandbox]:
    service = await connect()
    with reported("sandboxes cannot be listed"):
        return await retried(partial(listed, service), "sandboxes cannot be listed")


async def listed(service: sdk.AsyncDaytona, query: sdk.ListSandboxesQuery | None = None) -> list[sdk.AsyncSandbox]:
    """Return the sandboxes that a query finds."""
    return [sandbox async for sandbox in service.list(query)]


def find_targets() -> Iterator[FoundTarget]:
    """Go through our sandboxes.

    Raises:
        EnvironmentStartError: The service does not answer.
    """
    for sandbox in our_sandboxes():
        labels, runs = sandbox.labels, state_of(sandbox) == "started"
        use = _use(sandbox, runs=runs)
        pid = standing_of_mark(f"{labels[OWNER]}-")[1] if use == "live" else None
        yield FoundTarget(
            "sandbox",
            sandbox.id,
            "running" if runs else "stopped",
            use,
            partial(_delete, sandbox),
            task=labels.get(TASK, ""),
            name=sandbox.name or "",
            pid=pid,
            created=_time(sandbox.created_at),
        )


def _use(sandbox: sdk.AsyncSandbox, *, runs: bool) -> Use:
    standing, _ = standing_of_mark(f"{sandbox.labels[OWNER]}-")
    claim = _claim(sandbox)
    return use_of_kept(standing, claim, runs=runs) if claim else standing


def _claim(sandbox: sdk.AsyncSandbox) -> Claim | None:
    """Return the claim on a sandbox that is kept; None if it is not."""
    key = sandbox.labels.get(KEPT)
    return Claim(claim_name(key)) if key else None


def _time(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


def _delete(sandbox: sdk.AsyncSandbox, force: bool) -> None:
    what = f"backend 'daytona': sandbox {sandbox.id}"
    standing, _ = standing_of_mark(f"{sandbox.labels[OWNER]}-")
    with contextlib.ExitStack() as held:
        claim = _claim(sandbox)
        if claim and standing != "elsewhere":
            held.enter_context(unclaimed(claim, what, force))
        else:
            refuse_use(what, standing, force)
        with reported(f"sandbox {sandbox.id} cannot be deleted"):
            run(lambda _: end(sandbox, kept=False))

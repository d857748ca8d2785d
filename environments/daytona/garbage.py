"""Sandboxes whose process has died: deleted, or stopped where their files are to be kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from environments.daytona.listing import our_sandboxes
from environments.daytona.sandbox import end, state_of
from environments.daytona.service import reported, sdk
from environments.found_target import KEPT, OWNER, TASK
from environments.loop import run
from environments.owner import Orphan, mark_is_orphaned


def find_orphans() -> Iterator[Orphan]:
    """Go through our sandboxes whose owner is a process of this machine that has ended.

    Raises:
        EnvironmentStartError: The service does not answer.
    """
    for sandbox in our_sandboxes():
        own = sandbox.labels
        if not mark_is_orphaned(f"{own[OWNER]}-"):
            continue
        what = f"sandbox {sandbox.id} of task {own.get(TASK, '')}, whose process has ended"
        if KEPT not in own:
            yield Orphan(f"deleted {what}", partial(_end, sandbox, kept=False))
        elif state_of(sandbox) == "started":
            yield Orphan(f"stopped {what}", partial(_end, sandbox, kept=True))


def _end(sandbox: sdk.AsyncSandbox, kept: bool) -> None:
    with reported(f"sandbox {sandbox.id} cannot be ended"):
        run(lambda _: end(sandbox, kept=kept))

"""Sandboxes whose process has died: terminated, after a snapshot where their files are to be kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import modal

from environments.found_target import KEPT, OWNER, TASK
from environments.loop import run
from environments.modal.kept import Kept
from environments.modal.listing import our_sandboxes
from environments.modal.service import reported
from environments.owner import Orphan, mark_is_orphaned


def find_orphans() -> Iterator[Orphan]:
    """Go through the sandboxes of our app whose owner is a process of this machine that has ended.

    Raises:
        EnvironmentStartError: The service does not answer.
    """
    for sandbox, own in our_sandboxes():
        if not mark_is_orphaned(f"{own[OWNER]}-"):
            continue
        what = f"sandbox {sandbox.object_id} of task {own.get(TASK, '')}, whose process has ended"
        if KEPT in own:
            yield Orphan(f"snapshotted and terminated {what}", partial(_keep, sandbox, own))
        else:
            yield Orphan(f"terminated {what}", partial(_terminate, sandbox))


def _keep(sandbox: modal.Sandbox, own: Mapping[str, str]) -> None:
    kept = Kept(own[KEPT])
    if not kept.take():  # an environment is taking it up right now
        return
    try:
        with reported(f"the files of sandbox {sandbox.object_id} cannot be kept"):
            taken = run(lambda _: sandbox.snapshot_filesystem.aio())
            kept.note(taken.object_id, own.get(TASK, ""))
        _terminate(sandbox)
    finally:
        kept.release()


def _terminate(sandbox: modal.Sandbox) -> None:
    with reported(f"sandbox {sandbox.object_id} cannot be terminated"):
        run(lambda _: sandbox.terminate.aio())

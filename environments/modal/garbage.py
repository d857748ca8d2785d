"""Sandboxes whose process has died: terminated, after a snapshot where their files are to be kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import modal
from modal import exception

from environments.modal.kept import Kept
from environments.modal.service import connect, has_credentials, reported
from environments.modal.settings import ModalSettings
from environments.owner import Orphan, mark_is_orphaned
from environments.sandbox_labels import KEPT, OWNER, TASK
from environments.sources import load_settings


def find_orphans() -> Iterator[Orphan]:
    """Go through the sandboxes of our app whose owner is a process of this machine that has ended.

    Raises:
        EnvironmentStartError: The service does not answer.
    """
    if not has_credentials():
        return
    client = connect()
    with reported("sandboxes cannot be listed"):
        try:
            app = modal.App.lookup(ModalSettings.of(load_settings("modal")).app, client=client)
        except exception.NotFoundError:
            return
        found = [(sandbox, sandbox.get_tags()) for sandbox in modal.Sandbox.list(app_id=app.app_id, client=client)]
    for sandbox, own in found:
        if OWNER not in own or not mark_is_orphaned(f"{own[OWNER]}-"):
            continue
        what = f"sandbox {sandbox.object_id} of task {own.get(TASK, '')}, whose process has ended"
        if KEPT in own:
            yield Orphan(f"snapshotted and terminated {what}", partial(_keep, sandbox, Kept(own[KEPT])))
        else:
            yield Orphan(f"terminated {what}", partial(_terminate, sandbox))


def _keep(sandbox: modal.Sandbox, kept: Kept) -> None:
    if not kept.take():  # an environment is taking it up right now
        return
    try:
        with reported(f"the files of sandbox {sandbox.object_id} cannot be kept"):
            kept.snapshot = sandbox.snapshot_filesystem().object_id
        _terminate(sandbox)
    finally:
        kept.release()


def _terminate(sandbox: modal.Sandbox) -> None:
    with reported(f"sandbox {sandbox.object_id} cannot be terminated"):
        sandbox.terminate()

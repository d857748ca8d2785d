"""Sandboxes of ours, made by any process, and snapshots with notes in this `HERMES_HOME`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial

import modal
from modal import exception

from environments.found_target import CREATED, KEPT, OWNER, TASK, FoundTarget, owner_of
from environments.loop import in_worker, run
from environments.modal.sandbox import KEPT_TTL, take_snapshot
from environments.modal.service import connect, has_credentials, start_errors
from environments.modal.settings import ModalSettings
from environments.modal.snapshots import Snapshot, all_snapshots, delete_image
from environments.sources import load_settings


def list_targets() -> Iterator[FoundTarget]:
    """Yield our snapshots, then the running sandboxes of our app. Without credentials, no sandboxes are listed.

    Raises:
        EnvironmentStartError: The service does not answer. Raised after the snapshots.
    """
    for note in all_snapshots():
        if image := note.image:
            yield _snapshot(note, image)
    if has_credentials():
        for sandbox, tags in run(lambda _: _running_sandboxes(ModalSettings.of(load_settings("modal")).app)):
            if OWNER in tags:
                yield _sandbox(sandbox.object_id, tags)


async def _running_sandboxes(name: str) -> list[tuple[modal.Sandbox, Mapping[str, str]]]:
    client = await connect()
    with start_errors("sandboxes cannot be listed"):
        try:
            app = await modal.App.lookup.aio(name, client=client)
        except exception.NotFoundError:
            return []
        running = modal.Sandbox.list.aio(app_id=app.app_id, client=client)
        return [(sandbox, await sandbox.get_tags.aio()) async for sandbox in running]


def _snapshot(note: Snapshot, image: str) -> FoundTarget:
    return FoundTarget(
        "snapshot",
        image,
        "kept",
        partial(_delete, note, image),
        owner=note.owner,
        claim=note.claim,
        task=note.task,
        name=note.name,
        created=note.created,
    )


def _sandbox(sandbox: str, tags: Mapping[str, str]) -> FoundTarget:
    kept = Snapshot(tags[KEPT]) if KEPT in tags else None
    task, created = tags.get(TASK, ""), tags.get(CREATED, "")
    return FoundTarget(
        "sandbox",
        sandbox,
        "running",
        lambda: run(lambda _: _end(sandbox, None, task)),
        owner=owner_of(tags),
        claim=kept.claim if kept else None,
        set_aside=(lambda: run(lambda _: _end(sandbox, kept, task))) if kept else None,
        task=task,
        created=float(created) if created.isdigit() else None,
    )


async def _end(sandbox: str, kept: Snapshot | None, task: str) -> None:
    """Terminate a sandbox, if it exists; after a snapshot of its files, if they are kept."""
    client = await connect()
    action = "kept and terminated" if kept else "terminated"
    with start_errors(f"sandbox {sandbox} cannot be {action}"), contextlib.suppress(exception.NotFoundError):
        found = await modal.Sandbox.from_id.aio(sandbox, client=client)
        if kept:
            image = await take_snapshot(found, KEPT_TTL)
            await in_worker(kept.store, image.object_id, task)
        await found.terminate.aio()


def _delete(note: Snapshot, image: str) -> None:
    run(lambda _: delete_image(image))
    if note.image == image:
        note.remove()

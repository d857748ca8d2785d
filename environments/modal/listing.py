"""Our sandboxes, whoever has them, and the snapshots that are kept here by their ids."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial

import modal
from modal import exception

from environments.found_target import CREATED, KEPT, OWNER, TASK, FoundTarget, Use, refuse_use, unclaimed
from environments.loop import run
from environments.modal.kept import Kept, all_kept
from environments.modal.service import connect, has_credentials, reported
from environments.modal.settings import ModalSettings
from environments.owner import standing_of_mark
from environments.sources import load_settings


def our_sandboxes() -> list[tuple[modal.Sandbox, Mapping[str, str]]]:
    """Return the running sandboxes of our app that are ours, with their tags. Without credentials there are none.

    Raises:
        EnvironmentStartError: The service does not answer.
    """
    if not has_credentials():
        return []
    found = run(lambda _: _running(ModalSettings.of(load_settings("modal")).app))
    return [(sandbox, tags) for sandbox, tags in found if OWNER in tags]


async def _running(name: str) -> list[tuple[modal.Sandbox, Mapping[str, str]]]:
    client = await connect()
    with reported("sandboxes cannot be listed"):
        try:
            app = await modal.App.lookup.aio(name, client=client)
        except exception.NotFoundError:
            return []
        running = modal.Sandbox.list.aio(app_id=app.app_id, client=client)
        return [(sandbox, await sandbox.get_tags.aio()) async for sandbox in running]


def find_targets() -> Iterator[FoundTarget]:
    """Go through our sandboxes and snapshots.

    Raises:
        EnvironmentStartError: The service does not answer. The snapshots have been gone through.
    """
    for kept in all_kept():
        if image := kept.image:
            yield _snapshot(kept, image)
    for sandbox, tags in our_sandboxes():
        yield _sandbox(sandbox, tags)


def _sandbox(sandbox: modal.Sandbox, tags: Mapping[str, str]) -> FoundTarget:
    standing, pid = standing_of_mark(f"{tags[OWNER]}-")
    created = tags.get(CREATED, "")
    return FoundTarget(
        "sandbox",
        sandbox.object_id,
        "running",
        standing,
        partial(_terminate, sandbox.object_id, tags),
        task=tags.get(TASK, ""),
        pid=pid,
        created=float(created) if created.isdigit() else None,
    )


def _snapshot(kept: Kept, image: str) -> FoundTarget:
    use: Use = "live" if kept.is_taken else "free"
    remove = partial(_delete, kept)
    return FoundTarget("snapshot", image, "kept", use, remove, task=kept.task, name=kept.key, created=kept.created)


def _terminate(sandbox: str, tags: Mapping[str, str], force: bool) -> None:
    what = f"backend 'modal': sandbox {sandbox}"
    refuse_use(what, standing_of_mark(f"{tags[OWNER]}-")[0], force)
    with contextlib.ExitStack() as held:
        if KEPT in tags:  # an environment may be about to take it up
            held.enter_context(unclaimed(Kept(tags[KEPT]).claim, what, force))
        run(lambda _: _end(sandbox))


async def _end(sandbox: str) -> None:
    client = await connect()
    with reported(f"sandbox {sandbox} cannot be terminated"), contextlib.suppress(exception.NotFoundError):
        found = await modal.Sandbox.from_id.aio(sandbox, client=client)
        await found.terminate.aio()


def _delete(kept: Kept, force: bool) -> None:
    with unclaimed(kept.claim, f"backend 'modal': snapshot {kept.image}", force):
        image = kept.image
        if image:
            run(lambda _: _delete_image(image))
        kept.forget()


async def _delete_image(image: str) -> None:
    from modal.experimental import image_delete  # which the client says may be somewhere else in a later version

    client = await connect()
    with reported(f"snapshot {image} cannot be deleted"), contextlib.suppress(exception.NotFoundError):
        await image_delete.aio(image, client=client)

"""Our sandboxes and snapshots as `hermes-env ls` finds them, and their removal."""

from __future__ import annotations

import os
import time

import pytest
from standins.control import StandIn
from standins.in_process import use_and_be_killed

from environments import TerminalError
from environments.found_target import FoundTarget
from environments.modal import ModalEnvironment
from environments.modal.snapshots import Snapshot


def of_task(task: str) -> list[FoundTarget]:
    return [target for target in ModalEnvironment.list_targets() if target.task == task]


def running(service: StandIn, task: str) -> list[dict]:
    found = service.seen["sandboxes"]
    assert isinstance(found, list)
    return [box for box in found if box["running"] and box["tags"]["hermes-task"] == task]


def test_a_sandbox_is_found_with_its_owner_and_removed_only_by_force(service, make) -> None:
    make(task_id="a task").execute("true")
    (found,) = of_task("a_task")
    (box,) = running(service, "a_task")
    assert (found.kind, found.id, found.state, found.use, found.pid) == (
        "sandbox",
        box["id"],
        "running",
        "live",
        os.getpid(),
    )
    assert found.created is not None and abs(time.time() - found.created) < 600

    with pytest.raises(TerminalError, match=f"sandbox {found.short_id} is not removed, as a process still uses it"):
        found.remove(False)
    found.remove(True)
    assert running(service, "a_task") == []
    found.remove(True)


def test_a_snapshot_is_found_by_its_task_and_deleted_at_the_service(service, make, caplog) -> None:
    env = make(task_id="snapped", container_persistent=True)
    env.execute("echo mine >~/file")
    (sandbox,) = of_task("snapped")
    assert sandbox.kind == "sandbox"
    env.cleanup()
    (found,) = of_task("snapped")
    assert (found.kind, found.state, found.use) == ("snapshot", "kept", "free")
    assert found.created is not None and abs(time.time() - found.created) < 600
    assert Snapshot(found.name).image == found.id
    busy = make(task_id="snapped", container_persistent=True)
    busy.execute("true")
    (live,) = [each for each in of_task("snapped") if each.kind == "snapshot"]
    assert live.use == "live"
    with pytest.raises(TerminalError, match="a process still uses it"):
        live.remove(False)
    busy.cleanup()
    (found,) = of_task("snapped")
    found.remove(False)
    found.remove(False)
    assert of_task("snapped") == []
    again = make(task_id="snapped", container_persistent=True)
    assert again.execute("cat ~/file 2>/dev/null; echo anew").output == "anew\n"
    assert "are gone" not in caplog.text


def test_a_snapshot_that_an_earlier_version_noted_is_found_without_its_task(service, home) -> None:
    (home / "modal-snapshots").mkdir()
    (home / "modal-snapshots" / f"{7:032x}").write_text("im-before\n")
    (found,) = [each for each in ModalEnvironment.list_targets() if each.kind == "snapshot"]
    assert (found.id, found.task) == ("im-before", "")
    found.remove(False)
    assert list((home / "modal-snapshots").iterdir()) == []


@pytest.mark.alone("garbage")
def test_the_sandbox_of_a_killed_process_is_an_orphan_with_the_age_that_it_has(service, nap) -> None:
    pid = use_and_be_killed("modal", "orphan-listed", "kept", nap)
    (found,) = of_task("orphan-listed")
    assert (found.use, found.pid) == ("orphan", pid)
    found.remove(False)
    assert running(service, "orphan-listed") == []

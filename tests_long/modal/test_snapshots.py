"""Snapshots and forks of Modal's sandboxes, on the full stand-in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from standins.control import StandIn
from standins.faults import Fault
from standins.in_process import Make
from targets.fork_check import check_forks

from environments import Pool, TerminalError, load_settings
from environments.found_target import FoundTarget
from environments.inventory import collect_garbage
from environments.modal import ModalEnvironment
from environments.modal.snapshots import Snapshot
from environments.owner import Owner


def snapshots(service: StandIn) -> list[str]:
    found = service.seen["snapshots"]
    assert isinstance(found, list)
    return found


def test_a_snapshot_is_an_image_with_the_files_and_without_the_session(service: StandIn, make: Make):
    env = make()
    env.execute("echo here >~/file; export VARIABLE=set")
    env.execute("mkdir -p ${TMPDIR:-/tmp}/hermes-01234567-1-89abcdef-2-3-x")  # as of an environment in use
    image = env.snapshot("after-setup")
    assert image in snapshots(service)
    other = make(image=image)
    assert other.execute("cat ~/file; echo $VARIABLE").output == "here\n\n"
    assert other.execute("ls -d ${TMPDIR:-/tmp}/hermes-*-x").exit_code != 0
    with Pool(load_settings("modal", image=image), max=1) as pool, pool.environment() as lent:
        assert lent.execute("cat ~/file").output == "here\n"
    assert env.execute("echo $VARIABLE").output == "set\n"


def test_a_snapshot_of_the_same_name_is_replaced(service: StandIn, make: Make):
    env = make()
    env.execute("echo 1 >~/file")
    first = env.snapshot("replaced")
    other = make(image=first)
    other.execute("true")
    env.execute("echo 2 >~/file")
    second = env.snapshot("replaced")
    assert first not in snapshots(service) and second in snapshots(service)
    assert other.execute("cat ~/file").output == "1\n"
    assert make(image=second).execute("cat ~/file").output == "2\n"


def test_forks_begin_alike_go_their_own_ways_and_leave_nothing(service: StandIn, make: Make, home: Path):
    before = snapshots(service)
    env = make(container_persistent=True, task_id="forked", dockerfile_commands=("RUN true",))
    assert not list((home / "modal-snapshots").glob("fork-*"))
    check_forks(env, lambda: len(list((home / "modal-snapshots").glob("fork-*"))))
    assert snapshots(service) == before
    assert not list((home / "modal-snapshots").glob("fork-*"))


def test_a_fork_has_the_network_that_its_environment_has_by_then(service: StandIn, make: Make):
    env = make()
    env.set_network("none")
    with env.fork() as fork:
        assert fork.settings.own.network == "none"
        fork.execute("true")
        boxes = service.seen["sandboxes"]
        assert isinstance(boxes, list)
        assert boxes[-1]["networkAccess"]["networkAccessType"] == "BLOCKED"


def test_a_sandbox_that_was_joined_can_be_forked_too(make: Make):
    env = make()
    env.execute("echo theirs >~/file")
    with make(sandbox=env.target.id).fork() as fork:
        assert fork.execute("cat ~/file").output == "theirs\n"
        assert fork.target.id != env.target.id


def listed(image: str) -> FoundTarget | None:
    return next((found for found in ModalEnvironment.list_targets() if found.id == image), None)


@pytest.mark.alone("garbage")
def test_snapshots_are_listed_and_removed_and_those_of_ended_forks_collected(service: StandIn, make: Make):
    env = make(task_id="listed")
    fork = env.fork()
    named, beneath = env.snapshot("for-ls"), fork.forked_from
    found, of_fork = listed(named), listed(beneath)
    assert found and of_fork
    assert (found.kind, found.name, found.use, found.task) == ("snapshot", "for-ls", "free", "listed")
    assert (of_fork.use, of_fork.pid) == ("live", os.getpid())
    left = env.snapshot("left")
    host, pid, _ = Owner.this_process().mark.split("-", 2)
    Snapshot.named("left").remove()
    Snapshot(f"fork-{host}-{pid}-0-0-{left}").store(left, "listed")  # as left by an earlier process with the same id
    assert [line for line in collect_garbage() if left in line]
    assert left not in snapshots(service) and {named, beneath} <= set(snapshots(service))
    found.remove()
    assert named not in snapshots(service) and listed(named) is None
    fork.cleanup()
    assert listed(beneath) is None


def test_a_snapshot_that_the_service_refuses_is_an_error(service: StandIn, make: Make):
    env = make()
    env.execute("true")
    service.fault("TaskSnapshotFilesystem", Fault.UNAUTHENTICATED, times=3)
    with pytest.raises(TerminalError, match="no snapshot can be taken"):
        env.snapshot("refused")
    service.clear_faults()
    assert env.execute("echo on").output == "on\n"

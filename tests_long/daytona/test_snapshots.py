"""Snapshots and forks of Daytona's sandboxes, on the full stand-in."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest
from standins.control import StandIn
from standins.daytona_client import client
from standins.faults import Fault
from standins.in_process import Make
from targets.fork_check import check_forks

from environments import Pool, TerminalError, UnsupportedError, load_settings
from environments.daytona import DaytonaEnvironment
from environments.daytona.service import sdk
from environments.found_target import FoundTarget
from environments.inventory import collect_garbage
from environments.owner import Owner


def snapshots() -> list[str]:
    return [snapshot.name for snapshot in client().snapshot.list().items]


def test_a_snapshot_is_an_image_with_the_files_and_without_the_session(make: Make):
    env = make()
    env.execute("echo here >~/file; export VARIABLE=set")
    image = env.snapshot("after-setup")
    assert image in snapshots()
    other = make(image=image)
    look = "cat ~/file; echo $VARIABLE; cd ${TMPDIR:-/tmp}; ls -d hermes-* | wc -l"
    assert other.execute(look).output == "here\n\n1\n"
    with Pool(load_settings("daytona", image=image), max=1) as pool, pool.environment() as lent:
        assert lent.execute("cat ~/file").output == "here\n"
    assert env.execute("echo $VARIABLE").output == "set\n"
    with pytest.raises(UnsupportedError, match="limits are fixed"):
        make(image=image, container_cpu=2)


def test_a_snapshot_of_the_same_name_is_replaced(make: Make):
    env = make()
    env.execute("echo 1 >~/file")
    image = env.snapshot("replaced")
    other = make(image=image)
    other.execute("true")
    env.execute("echo 2 >~/file")
    assert env.snapshot("replaced") == image
    assert snapshots().count(image) == 1
    assert other.execute("cat ~/file").output == "1\n"
    assert make(image=image).execute("cat ~/file").output == "2\n"


def test_forks_begin_alike_go_their_own_ways_and_leave_nothing(make: Make):
    before = snapshots()
    env = make(image="debian:12", container_cpu=1, container_memory=1024)
    check_forks(env, lambda: len(snapshots()))
    assert snapshots() == before


def test_a_fork_of_a_kept_sandbox_is_not_kept(make: Make):
    env = make(container_persistent=True, task_id="forked")
    env.execute("echo kept >~/file")
    with env.fork() as fork:
        assert fork.execute("cat ~/file").output == "kept\n"
        own = fork.target.id
    kept = env.target.id
    env.cleanup()
    left = {sandbox.id for sandbox in client().list()}
    assert own not in left and kept in left
    client().get(kept).delete()


def listed(image: str) -> FoundTarget | None:
    return next((found for found in DaytonaEnvironment.list_targets() if found.name == image), None)


@pytest.mark.alone("garbage")
def test_snapshots_are_listed_and_removed_and_those_of_ended_forks_collected(make: Make):
    env = make()
    fork = env.fork()
    named, beneath = env.snapshot("for-ls"), fork.forked_from
    found, of_fork = listed(named), listed(beneath)
    assert found and of_fork
    assert (found.kind, found.use) == ("snapshot", "free")
    assert (of_fork.use, of_fork.pid) == ("live", os.getpid())
    host, pid, _ = Owner.this_process().mark.split("-", 2)
    left = f"hermes-fork-{host}-{pid}-0-0-left"  # as left by an earlier process with the same id
    client().get(env.target.id).create_snapshot(left)
    orphan = listed(left)
    assert orphan and [line for line in collect_garbage() if orphan.short_id in line]
    assert left not in snapshots() and {named, beneath} <= set(snapshots())
    found.remove()
    assert named not in snapshots() and listed(named) is None
    fork.cleanup()
    assert listed(beneath) is None


def test_a_snapshot_whose_answer_got_lost_is_taken_once(service: StandIn, make: Make):
    env = make()
    env.execute("echo here >~/file")
    service.fault("take_snapshot", Fault.DROPPED)
    image = env.snapshot("lost")
    assert make(image=image).execute("cat ~/file").output == "here\n"
    service.fault("take_snapshot", Fault.UNAUTHENTICATED)
    with pytest.raises(TerminalError, match="no snapshot can be taken"):
        env.snapshot("refused")


def test_a_service_without_snapshots_is_named(make: Make, monkeypatch: pytest.MonkeyPatch):
    async def unknown(*_: object, **__: object) -> NoReturn:
        raise sdk.DaytonaNotFoundError("Cannot POST /sandbox/1/snapshot", status_code=404)

    env = make()
    env.execute("true")
    monkeypatch.setattr(sdk.AsyncSandbox, "create_snapshot", unknown)
    with pytest.raises(UnsupportedError, match=r"127\.0\.0\.1 takes no snapshots"):
        env.snapshot("none")
    assert env.execute("echo on").output == "on\n"

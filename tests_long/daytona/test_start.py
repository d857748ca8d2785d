"""Starts of a sandbox of Daytona, stopped while the service does not answer."""

from __future__ import annotations

import pytest
from standins.control import StandIn
from standins.daytona_client import client
from standins.faults import Fault
from standins.in_process import Make
from targets.stopped_starts import WAYS, Stop, by_interrupt, our_threads

from environments.conformance.check import wait_until
from environments.progress import Progress


def sandboxes() -> int:
    return len(list(client().list()))


def calls(service: StandIn, name: str) -> int:
    return service.calls.get(name, 0)


@pytest.mark.parametrize("stop", WAYS, ids=lambda way: way.__name__)
def test_a_sandbox_that_the_service_makes_later_is_deleted(service: StandIn, make: Make, stop: Stop):
    before, creations, deletions = sandboxes(), calls(service, "create"), calls(service, "delete")
    service.fault("create", Fault.HELD)
    stop(make(), lambda: wait_until(lambda: calls(service, "create") > creations))
    service.release()
    assert wait_until(lambda: calls(service, "delete") > deletions and sandboxes() == before)
    assert wait_until(lambda: not our_threads())


def test_a_start_that_was_stopped_is_tried_again_by_the_next_command(service: StandIn, make: Make):
    before, creations = sandboxes(), calls(service, "create")
    service.fault("create", Fault.HELD)
    env = make()
    by_interrupt(env, lambda: wait_until(lambda: calls(service, "create") > creations))
    assert env.execute("echo works").output == "works\n"
    service.release()
    assert wait_until(lambda: sandboxes() == before + 1 and not our_threads())


def test_progress_reports_each_step(service: StandIn, make: Make):
    told: list[Progress] = []
    make(on_progress=told.append).execute("true")
    *steps, started = [each.what for each in told]
    assert steps == ["starting", "connecting to Daytona", "creating a sandbox"] and started.startswith("started in ")

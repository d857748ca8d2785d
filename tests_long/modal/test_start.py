"""Starts of a sandbox of Modal, stopped while the service does not answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from standins.control import StandIn
from standins.faults import Fault
from standins.in_process import Make
from targets.stopped_starts import WAYS, Stop, by_interrupt, our_threads

from environments.conformance.check import wait_until
from environments.progress import Progress

each_way = pytest.mark.parametrize("stop", WAYS, ids=lambda way: way.__name__)


def running(service: StandIn) -> int:
    found = service.seen["sandboxes"]
    assert isinstance(found, list)
    return sum(sandbox["running"] for sandbox in found)


def calls(service: StandIn, name: str) -> int:
    return service.calls.get(name, 0)


def hold(service: StandIn, name: str) -> Callable[[], object]:
    """Block the next call of a name, and return a function that waits for the call."""
    before = calls(service, name)
    service.fault(name, Fault.HELD)
    return lambda: wait_until(lambda: calls(service, name) > before)


@each_way
def test_a_sandbox_that_the_service_makes_later_is_ended(service: StandIn, make: Make, stop: Stop):
    for call in ("AppGetOrCreate", "ImageGetOrCreate", "SandboxCreateV2", "TaskExecStart"):
        before = running(service)
        stop(make(), hold(service, call))
        service.release()
        assert wait_until(lambda: not our_threads(), 60), call
        assert running(service) == before, call


def test_a_start_that_was_stopped_is_tried_again_by_the_next_command(service: StandIn, make: Make):
    before, env = running(service), make()
    by_interrupt(env, hold(service, "SandboxCreateV2"))
    assert env.execute("echo works").output == "works\n"
    service.release()
    assert wait_until(lambda: not our_threads()) and running(service) == before + 1


def test_progress_reports_each_step(service: StandIn, make: Make):
    told: list[Progress] = []
    make(on_progress=told.append).execute("true")
    *steps, started = [each.what for each in told]
    assert steps == ["starting", "connecting to Modal", "building the image, and creating a sandbox"]
    assert started.startswith("started in ")

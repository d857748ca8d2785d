"""Listing and removal of running and kept targets on real engines."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.docker_fixtures import containers_of
from targets.engines import PYTHON_IMAGE
from targets.processes import processes_with

from environments import TerminalError
from environments.claim import Claim
from environments.conformance.check import wait_until
from environments.docker import DockerEnvironment
from environments.docker.target import FINGERPRINT, claim_name
from environments.found_target import FoundTarget
from environments.local import LocalEnvironment
from environments.owner import Owner

ELSEWHERE = "elsewhere 1 x"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def task(engine) -> Iterator[str]:
    name = f"t-{secrets.token_hex(4)}"
    yield name
    for container in containers_of(engine, name):
        container.remove(force=True)


@pytest.fixture
def owned_by(engine, task) -> Callable[[str], str]:
    """Make containers with the label of an owner; return the id."""

    def make(owner: str) -> str:
        labels = {"hermes-environments.owner": owner, "hermes-environments.task": task}
        made: str = engine.containers.create(PYTHON_IMAGE, labels=labels).id
        return made

    return make


def targets_of(task: str) -> list[FoundTarget]:
    return [target for target in DockerEnvironment.list_targets() if target.task == task]


def test_a_container_is_found_with_its_owner_and_size_and_removed_only_by_force(
    engine, task, docker_environment
) -> None:
    env = docker_environment(task_id=task)
    env.execute("head -c 3000000 /dev/urandom >/root/file")
    (found,) = targets_of(task)
    (container,) = containers_of(engine, task)
    assert (found.kind, found.id, found.name, found.state) == ("container", container.id, container.name, "running")
    assert (found.use, found.pid) == ("live", os.getpid())
    assert found.size is not None and 3_000_000 <= found.size < 30_000_000
    assert found.created is not None and abs(time.time() - found.created) < 600
    with pytest.raises(TerminalError, match=f"container {found.id[:12]} is not removed, as a process still uses it"):
        found.remove(False)
    assert containers_of(engine, task)
    found.remove(True)
    assert not containers_of(engine, task)
    found.remove(True)


def test_a_kept_container_is_free_until_it_is_reused(engine, task, docker_environment) -> None:
    env = docker_environment(task_id=task, container_persistent=True)
    env.execute("true")
    (found,) = targets_of(task)
    assert (found.state, found.use) == ("running", "live")
    env.cleanup()
    (found,) = targets_of(task)
    assert (found.state, found.use, found.pid) == ("stopped", "free", None)
    (container,) = containers_of(engine, task)
    claim = Claim(claim_name(task, container.labels[FINGERPRINT]))  # as an environment that reuses the container
    assert claim.acquire()
    with pytest.raises(TerminalError, match="a process still uses it"):
        found.remove(False)
    claim.release()
    found.remove(False)
    assert not containers_of(engine, task)
    assert not list((Path(os.environ["HERMES_HOME"]) / "claims").iterdir())


@pytest.mark.alone("garbage")
def test_containers_of_another_machine_and_of_a_dead_process_are_distinguished(engine, task, owned_by) -> None:
    container = owned_by(ELSEWHERE)
    (found,) = targets_of(task)
    assert (found.id, found.use, found.state) == (container, "elsewhere", "stopped")
    with pytest.raises(TerminalError, match="belongs to another machine"):
        found.remove(False)
    found.remove(True)
    assert not containers_of(engine, task)
    here = Owner.this_process()
    owned_by(str(Owner(here.host, here.pid, "earlier")))
    (found,) = targets_of(task)
    assert (found.use, found.pid) == ("orphan", here.pid)
    found.remove(False)
    assert not containers_of(engine, task)


def test_processes_in_a_container_are_no_environment_of_this_machine(docker_environment, nap) -> None:
    env = docker_environment()
    env.start(f"sleep {nap}")
    assert wait_until(lambda: bool(processes_with(nap)), 60), "this machine sees the process"
    assert env.id not in [each.name for each in LocalEnvironment.list_targets()]

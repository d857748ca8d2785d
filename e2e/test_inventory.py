"""What runs and what is kept, on real engines, and how it is removed."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.engines import PYTHON_IMAGE
from targets.processes import having

from environments import (
    BaseEnvironment,
    FoundTarget,
    MissingExtraError,
    TerminalError,
    backend_class,
    create_environment,
)
from environments.claim import Claim
from environments.conformance.check import wait_until
from environments.docker import DockerEnvironment
from environments.docker.labels import FINGERPRINT, claim_name
from environments.inventory import take_inventory
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
    for container in containers(engine, name):
        container.remove(force=True)


@pytest.fixture
def owned_by(engine, task) -> Callable[[str], str]:
    """Makes a container that says it belongs to a process, and returns its id."""

    def make(owner: str) -> str:
        labels = {"hermes-environments.owner": owner, "hermes-environments.task": task}
        made: str = engine.containers.create(PYTHON_IMAGE, labels=labels).id
        return made

    return make


def containers(engine, task: str):
    return engine.containers.list(all=True, filters={"label": f"hermes-environments.task={task}"})


def _without_modal(name: str) -> type[BaseEnvironment]:
    if name == "modal":
        raise MissingExtraError("install it")
    return backend_class(name)


def of_task(task: str) -> list[FoundTarget]:
    return [target for target in DockerEnvironment.find_targets() if target.task == task]


def test_a_container_is_found_with_whose_it_is_and_what_it_takes(engine, task, docker_environment) -> None:
    env = docker_environment(task_id=task)
    env.execute("head -c 3000000 /dev/urandom >/root/file")
    (found,) = of_task(task)
    (container,) = containers(engine, task)
    assert (found.kind, found.id, found.name, found.state) == ("container", container.id, container.name, "running")
    assert (found.use, found.pid) == ("live", os.getpid())
    assert found.size is not None and 3_000_000 <= found.size < 30_000_000
    assert found.created is not None and abs(time.time() - found.created) < 600


def test_what_a_process_uses_is_removed_only_by_force(engine, task, docker_environment) -> None:
    docker_environment(task_id=task).execute("true")
    (found,) = of_task(task)
    with pytest.raises(TerminalError, match=f"container {found.id[:12]} is not removed, as a process still uses it"):
        found.remove(False)
    assert containers(engine, task)
    found.remove(True)
    assert not containers(engine, task)
    found.remove(True)


def test_a_kept_container_is_free_until_it_is_taken_up(engine, task, docker_environment) -> None:
    env = docker_environment(task_id=task, container_persistent=True)
    env.execute("true")
    (found,) = of_task(task)
    assert (found.state, found.use) == ("running", "live")
    env.cleanup()
    (found,) = of_task(task)
    assert (found.state, found.use, found.pid) == ("stopped", "free", None)
    (container,) = containers(engine, task)
    claim = Claim(claim_name(task, container.labels[FINGERPRINT]))  # as an environment takes it up just now
    assert claim.take()
    with pytest.raises(TerminalError, match="a process still uses it"):
        found.remove(False)
    claim.release()
    found.remove(False)
    assert not containers(engine, task)
    assert not list((Path(os.environ["HERMES_HOME"]) / "claims").iterdir())


def test_the_container_of_another_machine_is_known_as_that(engine, task, owned_by) -> None:
    container = owned_by(ELSEWHERE)
    (found,) = of_task(task)
    assert (found.id, found.use, found.state) == (container, "elsewhere", "stopped")
    with pytest.raises(TerminalError, match="belongs to another machine"):
        found.remove(False)
    found.remove(True)
    assert not containers(engine, task)


@pytest.mark.alone("garbage")
def test_the_container_of_a_process_that_has_ended_is_an_orphan(engine, task, owned_by) -> None:
    here = Owner.this_process()
    owned_by(str(Owner(here.host, here.pid, "earlier")))
    (found,) = of_task(task)
    assert (found.use, found.pid) == ("orphan", None)
    found.remove(False)
    assert not containers(engine, task)


def test_an_environment_of_this_machine_is_found_and_its_processes_are_ended_by_force(nap: str) -> None:
    with create_environment("local", sandbox="none") as env:
        env.execute_own("cat", stdin="x" * 200_000)  # which goes by a file
        process = env.start(f"sleep {nap}")
        assert isinstance(env, LocalEnvironment)
        (found,) = [each for each in LocalEnvironment.find_targets() if each.name == env.id]
        assert (found.kind, found.id, found.state) == ("environment", env.id[-8:], "running")
        assert (found.use, found.pid) == ("live", os.getpid())
        assert found.created is not None and abs(time.time() - found.created) < 600
        assert found.size
        with pytest.raises(TerminalError, match=f"environment {found.id} is not removed"):
            found.remove(False)
        assert having(nap)
        found.remove(True)
        assert not having(nap)
        assert process.wait(60) != 0
        assert env.id not in [each.name for each in LocalEnvironment.find_targets()]


def test_what_runs_in_a_container_of_this_machine_is_no_environment_of_the_machine(docker_environment, nap) -> None:
    env = docker_environment()
    env.start(f"sleep {nap}")
    assert wait_until(lambda: bool(having(nap)), 60), "it can be seen from here"
    assert env.id not in [each.name for each in LocalEnvironment.find_targets()]


def test_a_backend_that_cannot_be_looked_at_does_not_hide_the_others(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    monkeypatch.setenv("TERMINAL_ENV", "no-such-backend")
    with create_environment("local") as env:
        env.execute("true")
        inventory = take_inventory()
    assert [name for name, target in inventory.found if target.pid == os.getpid()].count("local") >= 1
    assert "no.sock" in inventory.failed["docker"]
    assert "no-such-backend" in inventory.failed["the configured backend"]


def test_a_client_library_that_is_missing_is_a_failure_only_of_a_backend_that_is_named(monkeypatch) -> None:
    monkeypatch.setattr("environments.inventory.backend_class", _without_modal)
    assert "modal" not in take_inventory().failed
    assert "modal" in take_inventory(["modal"]).failed

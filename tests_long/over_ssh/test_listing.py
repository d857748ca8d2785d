"""Targets on a host over SSH, as `hermes-env ls` lists them, and their removal."""

from __future__ import annotations

import os

import pytest
from targets.engines import PYTHON_IMAGE, require_docker, require_singularity
from targets.processes import processes_with
from targets.ssh_server import SSHServer

from environments import create_environment
from environments.found_target import FoundTarget
from environments.registry import backend_class


@pytest.fixture(autouse=True)
def configured(server: SSHServer, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Set the host in the settings, as for the command line."""
    for name, value in server.settings.items():
        monkeypatch.setenv(f"TERMINAL_SSH_{name.removeprefix('ssh_').upper()}", str(value))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))


def targets_of_process(backend: str) -> list[FoundTarget]:
    """Return this process's targets on the host."""
    return [target for target in backend_class(backend).list_targets() if target.pid == os.getpid()]


def test_an_environment_there_is_found_and_its_processes_are_ended_by_force(nap: str) -> None:
    with create_environment("ssh") as env:
        env.start(f"sleep {nap}")
        (target,) = [each for each in targets_of_process("ssh") if each.name == env.id]
        assert (target.kind, target.state, target.use) == ("environment", "running", "live")
        assert target.place == os.environ["TERMINAL_SSH_HOST"]
        target.remove(True)
        assert not processes_with(nap)


def test_a_container_there_is_found_and_removed(monkeypatch) -> None:
    require_docker().close()
    monkeypatch.setenv("TERMINAL_OVER", "ssh")
    with create_environment("docker", image=PYTHON_IMAGE, task_id="far away") as env:
        env.execute("true")
        there, here = [target for target in targets_of_process("docker") if target.task == "far away"]
        assert there.place.startswith("ssh://") and here.place == "", "both engines are the same one here"
        assert there.id == here.id == env.target.id
        there.remove(True)
        assert not [target for target in targets_of_process("docker") if target.task == "far away"]


def test_an_instance_there_and_what_it_keeps_are_found_and_removed(monkeypatch) -> None:
    images = require_singularity()
    monkeypatch.setenv("TERMINAL_OVER", "ssh")
    settings = {"image": str(images.sandbox), "task_id": "far away", "container_persistent": True}
    with create_environment("singularity", **settings) as env:
        env.execute("echo mine >/var/file")
        there = [target for target in targets_of_process("singularity") if target.place and target.task == "far_away"]
        assert [target.kind for target in there] == ["instance"]
        assert there[0].created is not None
        (kept,) = _kept_there()
        assert (kept.use, bool(kept.size), bool(kept.created)) == ("live", True, True)
    (kept,) = _kept_there()
    assert kept.use == "free"
    kept.remove(False)
    assert _kept_there() == []


def _kept_there() -> list[FoundTarget]:
    targets = backend_class("singularity").list_targets()
    return [target for target in targets if target.kind == "files" and target.place and target.task == "far away"]

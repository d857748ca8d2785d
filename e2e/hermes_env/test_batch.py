"""Batches in containers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path

import docker
import pytest
from targets.command_line import CommandLine, Start
from targets.engines import PYTHON_IMAGE

from environments import BaseEnvironment
from environments.conformance.check import wait_until
from hermes_env.batch import Task, read_results, run_batch

Containers = Callable[[], list[str]]


@pytest.fixture
def name() -> str:
    return f"batch-{secrets.token_hex(4)}"


@pytest.fixture
def containers(engine: docker.DockerClient, name: str) -> Containers:
    """Return a function that lists the containers of the batch."""

    def find() -> list[str]:
        found = engine.containers.list(all=True, ignore_removed=True, filters={"label": "hermes-environments.task"})
        return [each.id for each in found if each.labels["hermes-environments.task"].startswith(name)]

    return find


def test_containers_are_no_more_than_workers_and_are_removed(name: str, containers: Containers) -> None:
    settings = {"backend": "docker", "image": PYTHON_IMAGE, "task_id": name}
    most = 0

    def work(env: BaseEnvironment, task: Task) -> str:
        nonlocal most
        most = max(most, len(containers()))
        return env.execute("cat /etc/hostname").output

    summary = run_batch([{"id": str(number)} for number in range(6)], settings, work, workers=2, uses=2)
    assert summary.ok
    assert 1 <= most <= 2
    assert 3 <= len({result.output for result in summary.results}) <= 5
    assert containers() == []


@pytest.mark.alone("garbage")
def test_containers_of_a_killed_run_are_removed_before_it_goes_on(
    hermes_env: CommandLine, start_hermes_env: Start, tmp_path: Path, name: str, containers: Containers
) -> None:
    out, tasks = tmp_path / "results.jsonl", tmp_path / "tasks.jsonl"
    tasks.write_text("".join(json.dumps({"id": str(count), "command": f"echo {count}"}) + "\n" for count in range(24)))
    words = ("batch", str(tasks), "--out", str(out), "--workers", "4", "--uses", "4", "-b", "docker")
    words += ("--set", f"image={PYTHON_IMAGE}", "--set", f"task_id={name}")
    process = start_hermes_env(*words)
    assert wait_until(lambda: out.exists() and out.read_bytes().count(b"\n") >= 4, 100)
    process.kill()
    process.wait()
    assert containers()
    hermes_env(*words)
    assert containers() == []
    statuses = {result.id: result.status for result in read_results(out)}
    assert len(statuses) == 24
    assert [*statuses.values()].count("success") >= 20

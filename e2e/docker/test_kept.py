"""Kept containers: reuse and sharing."""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import pytest
from targets.docker_fixtures import containers_of
from targets.engines import PYTHON_IMAGE
from targets.refusing_link import RefusingLink

from environments import EnvironmentLostError, EnvironmentStartError, UnsupportedError
from environments.docker import DockerEnvironment
from environments.legacy import DEFAULT_LIMITS

Kept = Callable[..., DockerEnvironment]


@pytest.fixture
def kept(docker_environment, engine: docker.DockerClient) -> Iterator[Kept]:
    """Make environments that keep their container for a common task; remove the containers at the end."""
    task = f"t-{secrets.token_hex(4)}"
    made = []

    def make(**settings: object) -> DockerEnvironment:
        made.append(docker_environment(container_persistent=True, **{"task_id": task, **settings}))
        return made[-1]

    yield make
    for environment in made:
        environment.cleanup()
    for container in containers_of(engine, task):
        container.remove(force=True)


def test_environments_of_one_process_share_a_kept_container(kept: Kept, engine: docker.DockerClient, nap: str) -> None:
    first, second = kept(), kept()
    name = first.execute("echo mine >/root/kept; export WHO=first; hostname").output
    assert second.execute("hostname; cat /root/kept; echo $WHO").output == f"{name}mine\n\n", "and no session"
    mine, others = second.start(f"sleep {nap}1"), first.start(f"sleep {nap}2")
    first.cleanup()
    container = engine.containers.get(name.strip())
    assert container.status == "running"
    assert mine.running
    assert [row for row in processes(container) if nap in row] == [f"sleep {nap}1"], (
        "the process of the first environment has ended"
    )
    assert not others.running
    assert second.execute("echo goes on").output == "goes on\n"
    second.cleanup()
    container.reload()
    assert container.status == "exited"
    assert kept().execute("hostname; cat /root/kept").output == f"{name}mine\n", "also the next time"
    assert kept(container_memory=100).execute("hostname").output != name, "with other limits it is another container"


def processes(container: docker.models.containers.Container) -> list[str]:
    look = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'sleep [0-9.]*'"
    shown = container.exec_run(["sh", "-c", look])
    return shown.output.decode().splitlines()


def test_environments_that_start_and_end_at_once_share_a_container(kept: Kept, engine: docker.DockerClient) -> None:
    made = [kept() for _ in range(6)]

    def use(environment: DockerEnvironment) -> str:
        name = environment.execute("hostname").output
        environment.cleanup()
        return name

    with ThreadPoolExecutor(len(made)) as threads:
        names = set(threads.map(use, made))
    assert len(names) == 1
    (container,) = containers_of(engine, made[0].settings.task_id)
    assert container.status == "exited"


def test_a_timed_out_command_of_one_leaves_the_others_alone(kept: Kept, nap: str) -> None:
    first, second = kept(), kept()
    first.execute("true")
    process = second.start(f"sleep {nap}")
    for environment in (first, second):
        assert environment.execute(f"setsid sleep {nap}9 & sleep {nap}8", timeout=1).timed_out
    assert process.running
    assert first.execute("echo here").output == second.execute("echo here").output == "here\n"


def test_a_lost_container_is_replaced_once(kept: Kept, engine: docker.DockerClient) -> None:
    first, second = kept(), kept()
    lost = first.execute("hostname").output
    second.execute("true")
    engine.containers.get(lost.strip()).remove(force=True)
    names = set()
    for environment in (first, second):
        with pytest.raises(EnvironmentLostError):
            environment.execute("true")
        names.add(environment.execute("hostname").output)
    assert len(names) == 1
    assert names != {lost}
    first.cleanup()
    assert second.execute("echo here").output == "here\n"


_OTHER = """
import sys
from environments import EnvironmentStartError, create_environment
with create_environment("docker", image=sys.argv[1], container_persistent=True, task_id=sys.argv[2]) as env:
    try:
        print(env.execute("echo here").output)
    except EnvironmentStartError as error:
        print(error)
"""


def test_a_kept_container_in_use_is_refused_to_other_processes_until_its_last_user_has_ended(kept: Kept) -> None:
    first, second = kept(), kept()
    first.execute("true")
    second.execute("true")

    first.cleanup()
    assert "is in use by another process" in _run_in_another_process(first)
    second.cleanup()
    assert _run_in_another_process(first) == "here"


def _run_in_another_process(kept: DockerEnvironment) -> str:
    """Return the output or the error of a command in the same container, run by another process."""
    command = [sys.executable, "-c", _OTHER, PYTHON_IMAGE, kept.settings.task_id]
    return subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True).stdout.strip()


def test_a_failed_start_releases_the_claim(kept: Kept, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with RefusingLink(tmp_path / "engine.sock", "/var/run/docker.sock") as link, monkeypatch.context() as patched:
        patched.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
        link.refuse("/containers/create", times=1)
        failed = kept()
        with pytest.raises(EnvironmentStartError, match="too many requests"):
            failed.execute("true")
        assert _run_in_another_process(failed) == "here"
        failed.cleanup()


def test_a_limit_that_the_storage_cannot_enforce_is_a_warning_by_default_and_an_error_if_chosen(
    docker_environment, engine: docker.DockerClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("environments.log._warned", set())
    for name, value in DEFAULT_LIMITS.items():
        monkeypatch.setenv(f"TERMINAL_{name.upper()}", str(value))
    caplog.set_level(logging.WARNING)
    environments = [docker_environment() for _ in range(2)]
    for environment in environments:
        name = environment.execute("hostname").output.strip()
        host = engine.containers.get(name).attrs["HostConfig"]
        assert (host["NanoCpus"], host["Memory"]) == (10**9, 5120 * 2**20)
        limits = environment.capabilities.enforced_limits
        assert {"container_cpu", "container_memory"} <= limits
        if "container_disk" not in limits:  # elsewhere the storage has quotas
            assert "does not enforce container_disk" in caplog.text
            with pytest.raises(UnsupportedError, match="container_disk"):
                docker_environment(container_disk=51200).execute("true")
    assert caplog.text.count("does not enforce container_disk") <= 1

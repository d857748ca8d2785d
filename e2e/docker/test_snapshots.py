"""Snapshots and forks of containers."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import docker
import pytest
from targets.engines import PYTHON_IMAGE
from targets.podman_service import podman_service

from environments import UnsupportedError, create_environment
from environments.docker import DockerEnvironment
from environments.docker.image import FORK_OF, SNAPSHOT, SNAPSHOTS
from hermes_env.aio import AsyncEnvironment


@pytest.fixture
def docker_api(engine: docker.DockerClient) -> docker.APIClient:
    """Return the engine's API."""
    return engine.api


@pytest.fixture
def task(docker_api: docker.APIClient) -> Iterator[str]:
    """Return a task name; remove the task's snapshots at the end."""
    task = f"snapshot-{secrets.token_hex(4)}"
    yield task
    for image in _snapshots_of(docker_api, task):
        docker_api.remove_image(image["Id"], force=True)


def _snapshots_of(api: docker.APIClient, task: str) -> list[Any]:
    return list(api.images(filters={"label": f"{SNAPSHOT}={task}"}))


def _make_environment(task: str, **settings: object) -> Any:
    return create_environment("docker", task_id=task, **{"image": PYTHON_IMAGE, **settings})


def test_a_snapshot_is_an_image_with_the_files_and_without_the_session(docker_api: docker.APIClient, task: str) -> None:
    with _make_environment(task) as env:
        env.execute("echo here > /opt/file; export VARIABLE=set; cd /opt")
        image = env.snapshot(task)
    assert image == f"{SNAPSHOTS}:{task}"
    with _make_environment(task, image=image) as env:
        assert env.execute("cat /opt/file; echo $VARIABLE").output == "here\n\n"
    configs = [docker_api.inspect_image(each)["Config"] for each in (image, PYTHON_IMAGE)]
    assert [config["Entrypoint"] or None for config in configs] == [None, None]
    assert configs[0]["Cmd"] == configs[1]["Cmd"]


def test_no_variable_that_commands_see_is_in_the_image(docker_api: docker.APIClient, task: str) -> None:
    secret = secrets.token_hex(8)
    with _make_environment(task, env={"PASSWORD": secret}, extra_args=[f"--env=TOKEN={secret}"]) as env:
        assert env.execute("echo $PASSWORD $TOKEN").output == f"{secret} {secret}\n"
        image = env.snapshot(task)
        with env.fork() as fork:
            assert secret not in str(docker_api.inspect_image(fork.forked_from))
            assert fork.execute("echo $PASSWORD").output == f"{secret}\n"
    assert secret not in str(docker_api.inspect_image(image))
    assert secret not in str(docker_api.history(image))


def test_a_snapshot_of_the_same_name_is_replaced_and_its_environments_go_on(
    docker_api: docker.APIClient, task: str
) -> None:
    with _make_environment(task) as env:
        env.execute("echo 1 > /opt/file")
        env.snapshot(task)
        first = docker_api.inspect_image(f"{SNAPSHOTS}:{task}")["Id"]
        env.execute("echo 2 > /opt/file")
        image = env.snapshot(task)
        assert first not in {each["Id"] for each in _snapshots_of(docker_api, task)}
        with _make_environment(task, image=image) as other:
            other.prepare()
            env.execute("echo 3 > /opt/file")
            env.snapshot(task)
            assert other.execute("cat /opt/file").output == "2\n"


def test_an_image_with_a_users_tag_stays_when_the_snapshot_is_replaced(docker_api: docker.APIClient, task: str) -> None:
    with _make_environment(task) as env:
        docker_api.tag(env.snapshot(task), f"own-{task}", "1")
        env.execute("echo 2 > /opt/file")
        env.snapshot(task)
    assert docker_api.inspect_image(f"own-{task}:1")


def test_forks_start_equal_are_independent_and_leave_nothing(docker_api: docker.APIClient, task: str) -> None:
    with _make_environment(task) as env:
        env.execute("mkdir /opt/work; cd /opt/work; echo begun > file")
        forks = [env.fork() for _ in range(3)]
    unused = forks.pop()
    for fork in forks:
        assert fork.execute("pwd; cat file; echo own > file").output == "/opt/work\nbegun\n"
        assert docker_api.inspect_image(fork.forked_from)["Config"]["Labels"][FORK_OF]
    with forks[0].fork() as of_fork:
        forks[0].cleanup()
        assert of_fork.execute("cat file").output == "own\n"
    forks[1].cleanup()
    unused.cleanup()
    assert _snapshots_of(docker_api, task) == []


def test_a_fork_of_a_kept_container_is_not_kept(docker_api: docker.APIClient, task: str) -> None:
    with _make_environment(task, container_persistent=True) as env:
        env.execute("echo kept > /opt/file")
        with env.fork() as fork:
            assert fork.execute("cat /opt/file").output == "kept\n"
            own = fork.target.id
        assert not docker_api.containers(all=True, filters={"id": own})
        kept = env.target.id
    docker_api.remove_container(kept, force=True)
    assert _snapshots_of(docker_api, task) == []


def test_a_fork_has_the_hooks_of_its_environment(task: str) -> None:
    with create_environment("docker", image=PYTHON_IMAGE, task_id=task) as env:
        env.prepare()
        env.gate.before_command = lambda request: None
        with env.fork() as fork:
            assert fork.gate.before_command is env.gate.before_command


def test_a_fork_reaches_the_hosts_that_its_environment_reaches_now(task: str) -> None:
    with _make_environment(task, network=["one.example", "two.example"]) as env:
        env.prepare()
        env.set_network(["one.example"])
        with env.fork() as fork:
            assert fork.settings.docker.network == ("one.example",)


def test_a_joined_container_has_no_snapshots(docker_api: docker.APIClient, task: str) -> None:
    with _make_environment(task) as env, create_environment("docker", container=env.target.id) as joined:
        with pytest.raises(UnsupportedError, match="docker commit"):
            joined.snapshot(task)
        with pytest.raises(UnsupportedError, match="docker commit"):
            joined.fork()
    assert _snapshots_of(docker_api, task) == []


@pytest.mark.anyio
async def test_snapshots_and_forks_can_be_awaited(docker_api: docker.APIClient, task: str) -> None:
    async with AsyncEnvironment("docker", image=PYTHON_IMAGE, task_id=task) as env:
        await env.execute("echo here > /opt/file")
        assert await env.snapshot(task) == f"{SNAPSHOTS}:{task}"
        async with await env.fork() as fork:
            assert (await fork.execute("cat /opt/file")).output == "here\n"
    assert [each["RepoTags"] for each in _snapshots_of(docker_api, task)] == [[f"{SNAPSHOTS}:{task}"]]


def test_snapshots_are_listed_with_their_task_and_removed_by_name(docker_api: docker.APIClient, task: str) -> None:
    with _make_environment(task) as env:
        env.execute("head -c 3000000 /dev/urandom > /opt/file")
        image = env.snapshot(task)
        with env.fork() as fork:
            found = [each for each in DockerEnvironment.list_targets() if each.task == task and each.kind == "snapshot"]
            assert {each.name: (each.use, each.state) for each in found} == {
                image: ("free", "kept"),
                fork.forked_from: ("live", "kept"),
            }
            assert all(each.size and 3_000_000 <= each.size < 30_000_000 for each in found)
    (named,) = [each for each in DockerEnvironment.list_targets() if each.task == task]
    named.remove()
    named.remove()
    assert _snapshots_of(docker_api, task) == []


def test_a_users_container_of_a_snapshot_is_not_listed(docker_api: docker.APIClient, task: str) -> None:
    with _make_environment(task) as env:
        image = env.snapshot(task)
    container = docker_api.create_container(image, ["true"])["Id"]
    assert container not in {each.id for each in DockerEnvironment.list_targets()}
    docker_api.remove_container(container)


FORKS = """
import os, signal, sys
from environments import create_environment
env = create_environment("docker", image=sys.argv[1], task_id=sys.argv[2])
fork = env.fork()
fork.prepare()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_gc_removes_the_snapshot_of_a_fork_whose_process_was_killed(docker_api: docker.APIClient, task: str) -> None:
    subprocess.run([sys.executable, "-c", FORKS, PYTHON_IMAGE, task], check=False)
    for each in DockerEnvironment.list_targets():
        if each.task == task:
            assert each.use == "orphan"
            each.collect()
    assert _snapshots_of(docker_api, task) == []


def test_podman_has_snapshots_and_forks(monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    with podman_service() as service:
        monkeypatch.setenv("DOCKER_HOST", service.url)
        limits = () if service.holds_limits else ("container_cpu", "container_memory", "container_pids")
        unheld = dict.fromkeys(limits, 0)
        with _make_environment(task, **unheld) as env:
            env.execute("echo here > /opt/file; cd /opt")
            image = env.snapshot(task)
            assert env.snapshot(task) == image
            with env.fork() as fork:
                assert fork.execute("pwd; cat file").output == "/opt\nhere\n"
        with _make_environment(task, **{**unheld, "image": image}) as env:
            assert env.execute("cat /opt/file").output == "here\n"
        (named,) = [each for each in DockerEnvironment.list_targets() if each.task == task]
        assert (named.kind, named.name, named.use) == ("snapshot", image, "free")
        assert named.size is None or named.size >= 0
        named.remove()
        assert not [each for each in DockerEnvironment.list_targets() if each.task == task]

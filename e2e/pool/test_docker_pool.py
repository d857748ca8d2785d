"""Pools of containers on a real engine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import pytest
from targets.engines import PYTHON_IMAGE
from targets.lease_threads import LONG, LeaseThread, until
from targets.refusing_link import RefusingLink
from targets.renew_check import grep_processes

from environments import EnvironmentStartError, Pool, create_environment
from environments.pool import backoff
from environments.shell.pool import Control

MakePool = Callable[..., Pool]


@pytest.fixture
def containers(engine: docker.DockerClient) -> MakePool:
    """Make pools of containers. The test closes them."""
    settings = {"backend": "docker", "image": PYTHON_IMAGE, "task_id": f"pool-{uuid.uuid4().hex}"}
    return lambda **named: Pool(settings, **named)


@pytest.fixture
def link(engine: docker.DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RefusingLink]:
    """Open a link to the engine for all environments of the test."""
    with RefusingLink(tmp_path / "engine.sock", "/var/run/docker.sock") as link:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
        yield link


def containers_of_pool(engine: docker.DockerClient, pool: Pool) -> list[docker.models.containers.Container]:
    """Return the containers of a pool."""
    tasks = f"{pool.settings.task_id}-"
    found = engine.containers.list(all=True, ignore_removed=True)
    return [each for each in found if each.labels.get("hermes-environments.task", "").startswith(tasks)]


def test_each_borrower_has_a_new_container_and_none_is_left(containers, engine) -> None:
    with containers(min=1, max=2) as pool:
        hosts = []
        for _ in range(3):
            with pool.environment() as env:
                hosts.append(env.execute("test ! -e /used && touch /used && hostname").output.strip())
        assert len(set(hosts)) == 3 and all(hosts)
        assert len(containers_of_pool(engine, pool)) <= 2
        assert until(lambda: pool.stats().idle == 1 and pool.stats().ending == 0)
        (container,) = containers_of_pool(engine, pool)
        container.remove(force=True)
        with pool.environment(timeout=LONG) as env:
            assert not container.id.startswith(env.execute("hostname").output.strip()), "what is lost is not lent"
    assert not containers_of_pool(engine, pool)


def test_a_reused_container_has_no_processes_of_its_last_use(containers, nap) -> None:
    with containers(max=1, uses=2) as pool:
        with pool.environment() as env:
            first = env.execute(
                f"hostname; cd /; sleep {nap} & (setsid nohup sleep {nap} >/dev/null 2>&1 &)"
                f"; (env -i setsid sleep {nap} >/dev/null 2>&1 &)"  # as `service` starts one
            ).output
        with pool.environment() as env:
            assert env.execute("hostname").output in first
            assert env.execute(grep_processes(nap)).output == ""
            assert env.cwd != "/"


def test_processes_older_than_the_environment_survive_renew(engine, nap) -> None:
    with create_environment("docker", image=PYTHON_IMAGE) as env:
        env.execute(f"(env -i setsid sleep {nap} >/dev/null 2>&1 &)")
        # The process has our marker until `env -i` has run. Its start time is known to a clock tick, hence the sleep.
        is_there = f"p=$({grep_processes(nap)}) && ! grep -q . ${{p%cmdline}}environ"
        env.execute(f"until {is_there}; do sleep 0.02; done; sleep 0.1")
        env.prepare()
        env.renew()
        found = env.execute(grep_processes(nap))
        assert found.output.count("\n") == 1


def test_renew_ends_the_first_process_also_if_the_search_is_late(engine, nap, monkeypatch) -> None:
    """A late search happens on a loaded machine. By then the process is older than the processes of the start."""
    with create_environment("docker", image=PYTHON_IMAGE) as env:
        env.prepare()
        env.execute(f"(env -i setsid sleep {nap} >/dev/null 2>&1 &)")
        ask = Control.run_builtins

        async def late(shells: Control, text: str) -> str:
            await asyncio.sleep(0.5)
            return await ask(shells, text)

        monkeypatch.setattr(Control, "run_builtins", late)
        env.renew()
        assert env.execute(grep_processes(nap)).output == ""


def test_a_start_refused_by_a_busy_engine_is_retried(containers, link, monkeypatch) -> None:
    monkeypatch.setattr(backoff, "FIRST_DELAY", 0.01)
    link.refuse("/containers/create", times=2)
    with containers() as pool:
        assert LeaseThread(pool).join() == "works\n"
        assert pool.stats().failed == 2


def test_a_missing_image_is_an_error_for_all_waiting_borrowers(engine) -> None:
    with Pool({"backend": "docker", "image": "127.0.0.1:9/there/is-none"}, max=2) as pool:
        with ThreadPoolExecutor(4) as threads:
            errors = list(threads.map(lambda _: LeaseThread(pool).join(), range(4)))
        assert all(isinstance(each, EnvironmentStartError) for each in errors)
        assert all("no image" in str(each) for each in errors)


LEFT_OPEN = """
import sys
from environments import Pool
pool = Pool({"backend": "docker", "image": sys.argv[1]}, min=1)
with pool.environment() as env:
    print(env.execute("hostname").output, end="", flush=True)
    sys.exit(7)
"""


def test_containers_of_an_unclosed_pool_are_removed_at_exit(engine, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", LEFT_OPEN, PYTHON_IMAGE]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LONG, check=False)
    assert (done.returncode, done.stderr) == (7, "")
    with pytest.raises(docker.errors.NotFound):
        engine.containers.get(done.stdout.strip())

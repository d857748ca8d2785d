"""Pools of containers, on a real engine."""

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
    """Makes pools of containers, each of which a test closes."""
    settings = {"backend": "docker", "image": PYTHON_IMAGE, "task_id": f"pool-{uuid.uuid4().hex}"}
    return lambda **named: Pool(settings, **named)


@pytest.fixture
def link(engine: docker.DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RefusingLink]:
    """A link to the engine, by which environments reach it."""
    with RefusingLink(tmp_path / "engine.sock", "/var/run/docker.sock") as link:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
        yield link


def of(engine: docker.DockerClient, pool: Pool) -> list[docker.models.containers.Container]:
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
        assert len(of(engine, pool)) <= 2
        assert until(lambda: pool.stats().idle == 1 and pool.stats().ending == 0)
        (container,) = of(engine, pool)
        container.remove(force=True)
        with pool.environment(timeout=LONG) as env:
            assert not container.id.startswith(env.execute("hostname").output.strip()), "what is lost is not lent"
    assert not of(engine, pool)


def test_one_that_is_used_again_is_the_same_container_without_the_processes_of_the_use_before(containers, nap) -> None:
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


def test_what_ran_before_an_environment_was_first_ready_stays_when_it_begins_anew(engine, nap) -> None:
    with create_environment("docker", image=PYTHON_IMAGE) as env:
        env.execute(f"(env -i setsid sleep {nap} >/dev/null 2>&1 &)")
        # Until it has shed its environment, it is one of ours; by its start it is told from others to a tick.
        is_there = f"p=$({grep_processes(nap)}) && ! grep -q . ${{p%cmdline}}environ"
        env.execute(f"until {is_there}; do sleep 0.02; done; sleep 0.1")
        env.prepare()
        env.renew()
        found = env.execute(grep_processes(nap))
        assert found.output.count("\n") == 1


def test_what_was_started_first_is_ended_also_by_a_look_that_comes_late(engine, nap, monkeypatch) -> None:
    """On a loaded machine it does: at its time the process is older than all that followed its environment's start."""
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


def test_an_engine_that_is_too_busy_is_asked_again(containers, link, monkeypatch) -> None:
    monkeypatch.setattr(backoff, "FIRST_DELAY", 0.01)
    link.refuse("/containers/create", times=2)
    with containers() as pool:
        assert LeaseThread(pool).join() == "works\n"
        assert pool.stats().failed == 2


def test_an_image_that_is_nowhere_is_told_to_all_who_wait(engine) -> None:
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


def test_containers_of_a_pool_that_nobody_closes_are_removed_at_exit(engine, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", LEFT_OPEN, PYTHON_IMAGE]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LONG, check=False)
    assert (done.returncode, done.stderr) == (7, "")
    with pytest.raises(docker.errors.NotFound):
        engine.containers.get(done.stdout.strip())

"""Starts of a container, interrupted while the engine or a registry does not answer."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import docker
import pytest
from targets.docker_fixtures import containers_of
from targets.engines import MINIMAL_IMAGE
from targets.held_link import HeldLink
from targets.silent_server import silent_server
from targets.stopped_starts import Stop, by_a_limit, by_cleanup, by_interrupt, by_its_scope, our_threads

from environments import EnvironmentLostError, EnvironmentStartError, create_environment
from environments.conformance.check import wait_until
from environments.shell import lifecycle


@pytest.fixture
def link(engine: docker.DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldLink]:
    """Open a link to the engine for all environments of the test."""
    with HeldLink(tmp_path / "engine.sock", "/var/run/docker.sock") as link:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
        yield link


def test_a_pull_from_a_registry_that_does_not_answer_is_stopped(docker_environment):
    with silent_server() as registry:
        by_interrupt(docker_environment(image=f"127.0.0.1:{registry.port}/some/image"), registry.reached.wait)
        assert wait_until(lambda: not our_threads())


@pytest.mark.parametrize(("stop", "words"), [(by_a_limit, "/_ping"), (by_its_scope, "/start HTTP")])
def test_a_start_is_stopped_while_the_engine_does_not_answer(link, docker_environment, engine, stop: Stop, words):
    task = f"start-{stop.__name__}-{os.getpid()}"
    link.hold(words)
    stop(docker_environment(task_id=task), link.holds.wait)
    assert wait_until(lambda: not containers_of(engine, task), 60)
    assert wait_until(lambda: not our_threads()), our_threads()


def test_a_container_that_the_engine_makes_later_is_removed(link, docker_environment, engine):
    task = f"late-{os.getpid()}"
    link.hold("/containers/create", answers=True)
    env = docker_environment(task_id=task)
    by_cleanup(env, lambda: link.holds.wait() and wait_until(lambda: containers_of(engine, task)))
    assert containers_of(engine, task), "the engine has not yet returned the id"
    link.release()
    assert wait_until(lambda: not containers_of(engine, task), 60)
    assert wait_until(lambda: not our_threads()), our_threads()


def test_an_environment_in_a_cycle_is_collected_after_a_failed_start(engine, monkeypatch):
    ends, close = [], lifecycle._close_quietly

    async def closed(env) -> None:
        try:
            await close(env)
        except ReferenceError as error:
            ends.append(error)
        else:
            ends.append(None)

    monkeypatch.setattr(lifecycle, "_close_quietly", closed)
    holder = SimpleNamespace(env=create_environment("docker", image=MINIMAL_IMAGE, volumes=["/nowhere/x:/x:bad"]))
    holder.itself = holder  # left to the garbage collector, which drops weak references first
    with pytest.raises(EnvironmentStartError, match="invalid mode"):
        holder.env.execute("true")
    del holder
    assert wait_until(lambda: gc.collect() >= 0 and ends)
    assert ends == [None]


def test_a_start_that_was_stopped_is_tried_again_by_the_next_command(link, docker_environment):
    env = docker_environment()
    link.hold("/containers/create")
    by_interrupt(env, link.holds.wait)
    link.release()
    assert env.execute("echo works").output == "works\n"


def test_an_existing_container_outlives_a_start_that_is_stopped(link, docker_environment, container_of):
    env = docker_environment()
    env.execute("echo kept >/kept")
    container = container_of(env)
    container.stop(timeout=0)
    link.hold(f"/containers/{container.id}/start HTTP")  # not the start of an exec, which detects the loss
    with pytest.raises(EnvironmentLostError, match="lost"):
        env.execute("true")
    by_interrupt(env, link.holds.wait)
    link.release()
    assert env.execute("cat /kept").output == "kept\n"

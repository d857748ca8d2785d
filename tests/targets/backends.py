"""A subject of the conformance checks for each backend."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
from standins.daytona_client import client, daytona_stand_in
from standins.daytona_client import live_or_skip as daytona_live_or_skip
from standins.in_process import LIVE
from standins.modal_client import live_or_skip, modal_stand_in

from environments import BaseEnvironment, create_environment, load_settings
from environments.conformance import Subject
from environments.settings import RESOURCE_SETTINGS
from targets.bubblewrap import end_sandbox
from targets.engines import MINIMAL_IMAGE, PYTHON_IMAGE, require_bubblewrap, require_docker, require_singularity
from targets.per_command_local import PerCommandLocal
from targets.plain_local import PlainLocal
from targets.podman_service import podman_service
from targets.ssh_server import SSHServer

Backend = Callable[[Path], AbstractContextManager[Subject]]

NO_LIMITS = dict.fromkeys(RESOURCE_SETTINGS, 512)


@contextlib.contextmanager
def local(cwd: Path) -> Iterator[Subject]:
    """This machine."""
    yield Subject(
        lambda **settings: create_environment("local", **{"cwd": str(cwd), **settings}), refused_settings=NO_LIMITS
    )


@contextlib.contextmanager
def bubblewrap(cwd: Path) -> Iterator[Subject]:
    """This machine, in a sandbox."""
    require_bubblewrap()

    def make(**settings: object) -> BaseEnvironment:
        return create_environment("bubblewrap", **{"cwd": str(cwd), **settings})

    yield Subject(make, end_sandbox, refused_settings=NO_LIMITS)


@contextlib.contextmanager
def without_bash(cwd: Path) -> Iterator[Subject]:
    """This machine over dash, with the base class's own implementation of every method."""
    yield Subject(lambda **settings: PlainLocal(load_settings("local", **{"cwd": str(cwd), **settings})))


@contextlib.contextmanager
def docker(_: Path) -> Iterator[Subject]:
    """A container with bash."""
    with _docker(PYTHON_IMAGE) as subject:
        yield subject


@contextlib.contextmanager
def docker_listed(_: Path) -> Iterator[Subject]:
    """A container whose proxy admits only listed hosts."""
    with _docker(PYTHON_IMAGE) as subject:
        yield Subject(partial(subject.make, network=["example.org"]), subject.lose_target, subject.refused_settings)


@contextlib.contextmanager
def bubblewrap_listed(cwd: Path) -> Iterator[Subject]:
    """This machine, in a sandbox whose proxy admits only listed hosts."""
    with bubblewrap(cwd) as subject:
        yield Subject(partial(subject.make, network=["example.org"]), subject.lose_target, subject.refused_settings)


@contextlib.contextmanager
def docker_minimal(_: Path) -> Iterator[Subject]:
    """A container without bash and Python."""
    with _docker(MINIMAL_IMAGE) as subject:
        yield subject


@contextlib.contextmanager
def podman(_: Path) -> Iterator[Subject]:
    """A container of Podman with bash, through DOCKER_HOST."""
    with podman_service() as service, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", service.url)
        limits = () if service.holds_limits else ("container_cpu", "container_memory", "container_pids")
        with _docker(PYTHON_IMAGE, unheld=limits) as subject:
            yield subject


@contextlib.contextmanager
def _docker(image: str, unheld: Collection[str] = ()) -> Iterator[Subject]:
    client = require_docker()

    def remove(env: BaseEnvironment) -> None:
        client.containers.get(env.execute_oneshot("hostname").output.strip()).remove(force=True)

    def make(**settings: object) -> BaseEnvironment:
        return create_environment("docker", **{"image": image, **dict.fromkeys(unheld, 0), **settings})

    yield Subject(make, remove, refused_settings=dict.fromkeys(("container_disk", *unheld), 512))
    client.close()


@contextlib.contextmanager
def ssh_server(cwd: Path) -> Iterator[SSHServer]:
    """An SSH server of this test on this machine."""
    folder = cwd / "sshd"
    folder.mkdir()
    server = SSHServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.remove()


@contextlib.contextmanager
def ssh(cwd: Path) -> Iterator[Subject]:
    """This machine behind an SSH server of this test."""
    with ssh_server(cwd) as server:

        def make(**settings: object) -> BaseEnvironment:
            return create_environment("ssh", **{**server.settings, "cwd": str(cwd), **settings})

        yield Subject(make, lambda env: server.kill_connections(), refused_settings=NO_LIMITS)


@contextlib.contextmanager
def docker_over_ssh(cwd: Path) -> Iterator[Subject]:
    """A container of this machine's engine, reached over SSH. `lose_target` cuts the link."""
    require_docker().close()
    with ssh_server(cwd) as server:

        def make(**settings: object) -> BaseEnvironment:
            return create_environment("docker", **{"image": PYTHON_IMAGE, **server.over, **settings})

        yield Subject(make, lambda env: server.kill_connections(), refused_settings={"container_disk": 512})


@contextlib.contextmanager
def singularity_over_ssh(cwd: Path) -> Iterator[Subject]:
    """An instance on this machine, reached over SSH."""
    images = require_singularity()
    with ssh_server(cwd) as server:

        def make(**settings: object) -> BaseEnvironment:
            return create_environment("singularity", **{"image": str(images.sandbox), **server.over, **settings})

        yield Subject(make, kill_instance, refused_settings={"container_disk": 10})


def kill_instance(env: BaseEnvironment) -> None:
    """Kill the first process of an environment's instance on this machine."""
    os.kill(env._instance.record.pid, signal.SIGKILL)  # type: ignore[attr-defined]


@contextlib.contextmanager
def singularity(_: Path) -> Iterator[Subject]:
    """An instance over a sandbox directory."""
    images = require_singularity()

    def make(**settings: object) -> BaseEnvironment:
        return create_environment("singularity", **{"image": str(images.sandbox), **settings})

    yield Subject(make, kill_instance, refused_settings={"container_disk": 10})


@contextlib.contextmanager
def per_command(cwd: Path) -> Iterator[Subject]:
    """This machine, with short commands and file transfers only."""

    def make(**settings: object) -> BaseEnvironment:
        return PerCommandLocal(load_settings("local", **{"cwd": str(cwd), **settings}))

    yield Subject(make, lambda env: env.lose())  # type: ignore[attr-defined]


@contextlib.contextmanager
def modal(_: Path) -> Iterator[Subject]:
    """A sandbox of a stand-in over Docker. With `make test-live`: a sandbox of the service."""
    live = os.environ.get(LIVE)
    if live:
        live_or_skip()
    else:
        require_docker().close()

    def terminate(env: BaseEnvironment) -> None:
        env._sandbox.terminate()  # type: ignore[attr-defined]

    refused = dict.fromkeys(("container_disk", "container_pids"), 512)
    with contextlib.nullcontext() if live else modal_stand_in(PYTHON_IMAGE):
        yield Subject(lambda **settings: create_environment("modal", **settings), terminate, refused_settings=refused)


@contextlib.contextmanager
def daytona(_: Path) -> Iterator[Subject]:
    """A sandbox of a stand-in over Docker. With `make test-live`: a sandbox of the service."""
    live = os.environ.get(LIVE)
    if live:
        daytona_live_or_skip()
    else:
        require_docker().close()

    def delete(env: BaseEnvironment) -> None:
        client().get(env.target.id).delete()

    with contextlib.nullcontext() if live else daytona_stand_in(PYTHON_IMAGE):
        yield Subject(
            lambda **settings: create_environment("daytona", **settings), delete, refused_settings={"container_pids": 9}
        )


BACKENDS = (local, bubblewrap, without_bash, docker, docker_minimal, ssh, singularity, per_command, modal, daytona)
"""The backends of a test for every backend."""
OVER_SSH = (docker_over_ssh, singularity_over_ssh)
"""Backends with an engine reached over SSH. They differ in the link alone: only the contract is run on them."""

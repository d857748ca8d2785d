"""A Docker engine on a host over SSH. The contract itself is in environments/conformance."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest
from targets.docker_fixtures import MakeDocker, containers_of
from targets.engines import PYTHON_IMAGE
from targets.ssh_server import Link, SSHServer
from targets.stopped_starts import Stop, by_cleanup, by_interrupt, our_threads

from environments import (
    EnvironmentLostError,
    EnvironmentStartError,
    create_environment,
)
from environments.conformance.check import wait_until
from environments.docker import DockerEnvironment
from environments.progress import Progress

Over = dict[str, object]
COMMANDS = 20
LARGE = 32_000_000
"""Bytes of a file that is larger than the buffers of a link."""


@pytest.fixture
def link(server: SSHServer) -> Iterator[Link]:
    link = Link(server.port)
    yield link
    link.close()


def test_a_command_takes_no_round_trip_more_than_on_the_host_and_all_share_a_connection(
    docker_environment: MakeDocker, server: SSHServer, link: Link
) -> None:
    settings = {**server.over, "ssh_port": link.port}
    with create_environment("ssh", **{k: v for k, v in settings.items() if k != "over"}) as host:
        on_host = [_round_trips(host.execute, link), _round_trips(host.execute_oneshot, link)]
    assert link.connections == 1
    with docker_environment(**settings) as env:  # ends while the link is up
        inside = [_round_trips(env.execute, link), _round_trips(env.execute_oneshot, link)]
        threads = [threading.Thread(target=env.execute_oneshot, args=("sleep 0.2",)) for _ in range(COMMANDS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert link.connections == 2
    # A keepalive or a window adjustment may come in between.
    for there, here in zip(on_host, inside, strict=True):
        assert here <= there + 2 < COMMANDS + 5


def _round_trips(run: Callable[[str], object], link: Link) -> int:
    """Return the number of round trips to the host, for some commands in open shells."""
    for _ in range(3):
        run("true")
    before = link.turns
    for _ in range(COMMANDS):
        run("true")
    return link.turns - before


def test_a_link_that_drops_under_a_file_leaves_the_one_that_is_there(
    docker_environment: MakeDocker, server: SSHServer, over: Over, tmp_path: Path
) -> None:
    env = docker_environment(**over)
    env.write_bytes("/tmp/there/file", b"old")
    (tmp_path / "new").write_bytes(bytes(LARGE))

    def drop(progress: Progress) -> None:
        if progress.done:
            server.kill_connections()

    env.progress.callback = drop
    with pytest.raises(EnvironmentLostError):
        env.put_file(tmp_path / "new", "/tmp/there/file")
    env.progress.callback = None
    assert wait_until(lambda: [each.name for each in env.list_dir("/tmp/there")] == ["file"])
    assert env.read_bytes("/tmp/there/file") == b"old"


def test_the_container_is_removed_although_the_link_dropped_before_that(
    docker_environment: MakeDocker, server: SSHServer, over: Over, engine: docker.DockerClient
) -> None:
    task = f"dropped-{os.getpid()}"
    env = docker_environment(**over, task_id=task)
    env.execute("true")
    server.kill_connections()
    env.cleanup()
    assert not containers_of(engine, task)
    assert wait_until(lambda: not our_threads())


def test_a_container_that_stays_when_the_host_is_gone_is_reported(
    docker_environment: MakeDocker,
    start_host: Callable[[str], SSHServer],
    engine: docker.DockerClient,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = start_host("")
    task = f"unreachable-{os.getpid()}"
    env = docker_environment(**server.over, task_id=task)
    env.execute("true")
    server.stop()
    with caplog.at_level(logging.WARNING, "environments"):
        env.cleanup()
    (container,) = containers_of(engine, task)
    container.remove(force=True)
    assert f"container {container.id} may still be there" in caplog.text


def test_a_kept_container_is_taken_up_again_and_is_none_of_this_machines_own(
    docker_environment: MakeDocker, over: Over, engine: docker.DockerClient, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    kept = {"container_persistent": True, "task_id": f"kept-{os.getpid()}"}
    try:
        for said in ("", "first\n"):
            env = docker_environment(**over, **kept)
            assert env.execute("cat /root/file 2>/dev/null; echo first >/root/file").output == said
            env.cleanup()
        assert docker_environment(**kept).execute("cat /root/file").exit_code == 1
    finally:
        for container in containers_of(engine, kept["task_id"]):
            container.remove(force=True)


NOWHERE = "export DOCKER_HOST=unix:///nowhere/docker.sock"
NOBODY = 'exec setpriv --reuid 65534 --regid 65534 --clear-groups /bin/sh "$@"'
OLD = "docker: 'system dial-stdio' is not a docker command."


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (NOWHERE, ["the engine of", "does not answer", "start it there"]),
        (NOBODY, ["may not use the engine of", "usermod -aG docker"]),
        (f"docker() {{ :; }}; PATH=PROGRAMS:$PATH; MESSAGE={OLD!r}", ["has no `docker system dial-stdio`", "18.09"]),
    ],
    ids=["no engine runs", "not allowed", "too old"],
)
def test_an_unusable_engine_on_the_host_is_an_error_with_the_reason(
    before: str, said: list[str], start_host: Callable[[str], SSHServer], program: Callable[[str, str], Path]
) -> None:
    programs = program("docker", f'echo "{OLD}" >&2; exit 1')
    server = start_host(before.replace("PROGRAMS", str(programs)))
    with pytest.raises(EnvironmentStartError) as raised, create_environment("docker", **server.over) as env:
        env.execute("true")
    for words in (*said, f"127.0.0.1:{server.port}"):
        assert words in str(raised.value)


def test_a_host_without_docker_is_an_error(host_without_engines: Over) -> None:
    with (
        pytest.raises(EnvironmentStartError, match=r"there is no docker program on agent@.*install it there"),
        create_environment("docker", **host_without_engines) as env,
    ):
        env.execute("true")


@pytest.mark.parametrize("stop", [by_interrupt, by_cleanup], ids=lambda way: way.__name__)
def test_a_start_that_waits_for_the_engine_there_can_be_stopped(
    stop: Stop,
    start_host: Callable[[str], SSHServer],
    program: Callable[[str, str], Path],
    docker_environment: MakeDocker,
    tmp_path: Path,
) -> None:
    programs = program("docker", f"touch {tmp_path}/begun; exec cat >/dev/null")
    server = start_host(f"PATH={programs}:$PATH")
    stop(docker_environment(**server.over), lambda: wait_until((tmp_path / "begun").exists))
    assert wait_until(lambda: not our_threads()), our_threads()


LOST = """\
import os, sys
from environments import create_environment
env = create_environment("docker", image=sys.argv[1], task_id=sys.argv[2])
env.execute("true")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.alone("garbage")
def test_gc_removes_what_a_killed_process_has_left_there(
    server: SSHServer, engine: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.over.items():
        monkeypatch.setenv(f"TERMINAL_{name.upper()}", str(value))
    task = f"left-{os.getpid()}"
    words = [sys.executable, "-c", LOST, PYTHON_IMAGE, task]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")  # this machine has no engine
    (orphan,) = [target for target in DockerEnvironment.list_targets() if target.task == task]
    assert orphan.use == "orphan"
    assert orphan.collect()
    assert not containers_of(engine, task)

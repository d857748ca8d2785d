from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys

import pytest
from targets.docker_fixtures import containers_of
from targets.engines import PYTHON_IMAGE

from environments.docker import DockerEnvironment
from environments.found_target import FoundTarget
from environments.inventory import collect_garbage

pytestmark = pytest.mark.alone("garbage")

WORK = """
import sys, time
from environments import create_environment
env = create_environment("docker", image=sys.argv[1], task_id=sys.argv[2], container_persistent=sys.argv[3] == "kept")
env.execute("echo mine >/root/file; sleep 1000 &")
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def task(engine):
    name = f"t-{secrets.token_hex(4)}"
    yield name
    for container in containers_of(engine, name):
        container.remove(force=True)


def found(container) -> FoundTarget:
    (target,) = [each for each in DockerEnvironment.list_targets() if each.id == container.id]
    assert target.use == "orphan"
    return target


@pytest.fixture
def start_process(tmp_path, task):
    """Start programs that have a container, to be killed by the test."""
    started = []

    def start(how: str = "removed") -> subprocess.Popen:
        variables = {**os.environ, "HERMES_HOME": str(tmp_path)}
        words = [sys.executable, "-c", WORK, PYTHON_IMAGE, task, how]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, env=variables)
        started.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_gc_removes_and_reports_the_container_of_a_killed_process_once(engine, task, start_process, tmp_path):
    process = start_process()
    (container,) = containers_of(engine, task)
    assert not [line for line in collect_garbage() if container.short_id in line], "its process runs"
    process.send_signal(signal.SIGKILL)
    process.wait()
    found_by_another = found(container)
    assert (found_by_another.task, found_by_another.pid) == (task, process.pid)
    ask = [sys.executable, "-m", "hermes_env", "gc"]
    assert task in subprocess.run(ask, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert not [line for line in collect_garbage() if container.short_id in line], "once is enough"
    assert not containers_of(engine, task)
    found_by_another.collect()


def test_a_kept_container_of_a_killed_process_is_stopped(engine, task, start_process, tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    process = start_process("kept")
    (container,) = containers_of(engine, task)
    process.send_signal(signal.SIGKILL)
    process.wait()
    found_by_another = found(container)
    assert [line for line in collect_garbage() if container.short_id in line]
    container.reload()
    assert container.status == "exited"
    found_by_another.collect()
    assert not [line for line in collect_garbage() if container.short_id in line], "once is enough"


def test_a_kept_container_left_running_is_reused_without_its_processes(
    engine, task, start_process, tmp_path, monkeypatch, docker_environment
):
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    process = start_process("kept")
    process.send_signal(signal.SIGKILL)
    process.wait()
    env = docker_environment(container_persistent=True, task_id=task)
    assert env.execute("cat /root/file; pgrep -c sleep").output == "mine\n0\n"

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys

import pytest
from targets.engines import PYTHON_IMAGE

from environments.claim import Claim
from environments.docker import DockerEnvironment
from environments.garbage import collect_garbage
from environments.owner import Orphan, Owner

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
    for container in containers(engine, name):
        container.remove(force=True)


def containers(engine, task: str):
    return engine.containers.list(all=True, filters={"label": f"hermes-environments.task={task}"})


def found(container) -> Orphan:
    (orphan,) = [each for each in DockerEnvironment.find_orphans() if container.short_id in each.description]
    return orphan


@pytest.fixture
def start_process(tmp_path, task):
    """A process of ours with a container, ready to be killed."""
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


def test_the_container_of_a_killed_process_is_removed(engine, task, start_process):
    process = start_process()
    (container,) = containers(engine, task)
    assert not [line for line in collect_garbage() if container.short_id in line], "its process runs"
    process.send_signal(signal.SIGKILL)
    process.wait()
    found_by_another = found(container)
    (line,) = [line for line in collect_garbage() if container.short_id in line]
    assert task in line and str(process.pid) in line
    assert not containers(engine, task)
    found_by_another.remove()


def test_the_container_of_another_machine_is_left_alone(engine, task):
    labels = {"hermes-environments.owner": "elsewhere 1 x", "hermes-environments.task": task}
    container = engine.containers.create(PYTHON_IMAGE, labels=labels)
    assert not [line for line in collect_garbage() if container.short_id in line]
    container.reload()


def test_a_kept_container_of_a_killed_process_is_stopped(engine, task, start_process, tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    process = start_process("kept")
    (container,) = containers(engine, task)
    assert not [line for line in collect_garbage() if container.short_id in line], "its process runs"
    process.send_signal(signal.SIGKILL)
    process.wait()
    found_by_another = found(container)
    assert [line for line in collect_garbage() if container.short_id in line]
    container.reload()
    assert container.status == "exited"
    found_by_another.remove()
    assert not [line for line in collect_garbage() if container.short_id in line], "once is enough"


def test_a_kept_container_left_running_is_taken_up_without_what_ran_in_it(
    engine, task, start_process, tmp_path, monkeypatch, docker_environment
):
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    process = start_process("kept")
    process.send_signal(signal.SIGKILL)
    process.wait()
    env = docker_environment(container_persistent=True, task_id=task)
    assert env.execute("cat /root/file; pgrep -c sleep").output == "mine\n0\n"


def test_gc_says_what_it_removed_and_when_there_was_nothing(engine, task, start_process, tmp_path):
    process = start_process()
    process.send_signal(signal.SIGKILL)
    process.wait()
    ask = [sys.executable, "-m", "hermes_env", "gc"]
    first = subprocess.run(ask, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert task in first.stdout
    second = subprocess.run(ask, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert task not in second.stdout


def test_an_engine_that_is_not_there_is_only_a_warning(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    assert not [line for line in collect_garbage() if line.startswith("docker:")]
    assert "no.sock" in caplog.text


def test_an_owner_is_gone_when_its_process_has_ended_or_its_id_is_anothers():
    me = Owner.this_process()
    assert Owner.parse(str(me)) == me
    assert not me.is_gone
    assert Owner(me.host, me.pid, "earlier").is_gone
    assert not Owner("another", me.pid, "earlier").is_gone
    child = subprocess.Popen(["sleep", "1000"])
    theirs = Owner(me.host, child.pid, me.started)
    child.kill()
    child.wait()
    assert theirs.is_gone
    assert Owner.parse("something else entirely") is None


def test_a_claim_is_one_processes_until_it_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    claim, other = Claim("thing"), Claim("thing")
    assert not other.is_held and not (tmp_path / "claims").exists(), "to look makes nothing"
    code = "import time; from environments.claim import Claim; print(Claim('thing').take(), flush=True); time.sleep(99)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"True\n"
        assert not claim.take() and other.is_held
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert not other.is_held, "its file is still there"
        assert claim.take() and other.is_held
        assert claim.take(), "what one has one may take again"
    claim.release()
    assert not list((tmp_path / "claims").iterdir())

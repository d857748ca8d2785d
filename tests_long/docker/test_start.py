"""All ways to stop a start, at each of its steps, while the engine or a registry does not answer."""

from __future__ import annotations

import os

import pytest
from targets.docker_fixtures import containers_of
from targets.held_link import HeldLink
from targets.silent_server import silent_server
from targets.stopped_starts import WAYS, Stop, our_threads

from environments.conformance.check import wait_until


@pytest.mark.parametrize("stop", WAYS, ids=lambda way: way.__name__)
def test_a_start_is_stopped_at_each_step_and_leaves_nothing(
    docker_environment, engine, tmp_path, monkeypatch, stop: Stop
):
    with silent_server() as registry:
        stop(docker_environment(image=f"127.0.0.1:{registry.port}/some/image"), registry.reached.wait)
        assert wait_until(lambda: not our_threads()), our_threads()
    for number, (words, answers) in enumerate((("/_ping", False), ("/start HTTP", False), ("/create", True))):
        task, door = f"{stop.__name__}-{number}-{os.getpid()}", tmp_path / f"{number}.sock"
        monkeypatch.setenv("DOCKER_HOST", f"unix://{door}")
        with HeldLink(door, "/var/run/docker.sock") as link:
            link.hold(words, answers=answers)
            stop(docker_environment(task_id=task), lambda link=link: link.holds.wait(60))
            if answers:
                link.release()
            assert wait_until(lambda task=task: not containers_of(engine, task), 60), words
            assert wait_until(lambda: not our_threads()), our_threads()

"""`hermes-env ls` and `hermes-env rm` with containers."""

from __future__ import annotations

import json
import os

import pytest
from targets.command_line import CommandLine
from targets.engines import PYTHON_IMAGE

from environments import create_environment
from environments.docker import DockerEnvironment


def test_the_containers_of_other_processes_are_found(hermes_env: CommandLine) -> None:
    with create_environment("docker", image=PYTHON_IMAGE, task_id="seen by ls") as env:
        env.execute("true")
        done = hermes_env("ls", "--task", "seen by ls", "--json")
        (found,) = json.loads(done.stdout)
        assert (found["backend"], found["id"], found["pid"]) == ("docker", env.target.id, os.getpid())
        line = hermes_env("ls", "-b", "docker", "--task", "seen by ls").stdout.splitlines()[1]
        words = ["docker", "container", env.target.id[:12], "seen", "by", "ls", "running", "process", str(os.getpid())]
        assert line.split()[: len(words)] == words


def test_a_kept_container_is_removed_and_a_container_in_use_is_not(
    hermes_env: CommandLine, variables: dict[str, str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMES_HOME", variables["HERMES_HOME"])
        settings = {"image": PYTHON_IMAGE, "task_id": "removed by rm", "container_persistent": True}
        with create_environment("docker", **settings) as env:
            env.execute("true")
            container = env.target.id
            done = hermes_env("rm", container[:12])
            assert done.returncode == 125
            assert f"is not removed: process {os.getpid()}" in done.stderr
        assert hermes_env("rm", "--task", "removed by rm").stdout.startswith(
            f"removed docker container {container[:12]}"
        )
        assert container not in [target.id for target in DockerEnvironment.list_targets()]

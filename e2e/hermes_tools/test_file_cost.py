"""Number of processes that a call of a file tool starts in a container, counted by their ids."""

from __future__ import annotations

from collections.abc import Callable

from targets.engines import PYTHON_IMAGE
from targets.processes import newest_pid

from environments.docker import DockerEnvironment
from hermes_tools.files.read_file import read_file
from hermes_tools.files.write_file import write_file
from hermes_tools.patch.patch import patch


def test_a_call_starts_only_the_process_that_does_the_work(
    docker_environment: Callable[..., DockerEnvironment],
) -> None:
    env = docker_environment(image=PYTHON_IMAGE, cwd="/tmp")
    lines = "".join(f"line {number}\n" for number in range(200))
    calls: dict[str, Callable[[], object]] = {
        "read": lambda: read_file(env, "a"),
        "new": lambda: write_file(env, f"new {newest_pid(env)}", lines),
        "existing": lambda: write_file(env, "a", lines),
        "patch": lambda: patch(env, "a", "line 7\n", "line seven\n"),
    }
    for _ in range(2):  # the second write probes the target's programs, once
        write_file(env, "a", lines)
    started = {}
    for name, call in calls.items():
        before = newest_pid(env)
        answer = call()
        assert "error" not in dict(answer), answer  # type: ignore[call-overload]
        started[name] = newest_pid(env) - before - 1  # newest_pid starts a process
    # A call is one fork of a warm shell; the fork becomes the last program, `mv` or `sed`. `new` calls newest_pid.
    assert started == {"read": 1, "new": 2, "existing": 1, "patch": 1}

"""Processes that one call of a file tool starts in a container: its kernel numbers them one after the other."""

from __future__ import annotations

from collections.abc import Callable

from targets.engines import PYTHON_IMAGE

from environments.docker import DockerEnvironment
from hermes_tools.files.read_file import read_file
from hermes_tools.files.write_file import write_file
from hermes_tools.patch.patch import patch


def last_number(env: DockerEnvironment) -> int:
    return int(env.execute_oneshot("read -r _ _ _ _ last </proc/loadavg; echo $last").output)


def test_a_call_starts_no_process_but_what_does_the_work(
    docker_environment: Callable[..., DockerEnvironment],
) -> None:
    env = docker_environment(image=PYTHON_IMAGE, cwd="/tmp")
    lines = "".join(f"line {number}\n" for number in range(200))
    calls: dict[str, Callable[[], object]] = {
        "read": lambda: read_file(env, "a"),
        "new": lambda: write_file(env, f"new {last_number(env)}", lines),
        "existing": lambda: write_file(env, "a", lines),
        "patch": lambda: patch(env, "a", "line 7\n", "line seven\n"),
    }
    for _ in range(2):  # the second finds out once what the target has
        write_file(env, "a", lines)
    started = {}
    for name, call in calls.items():
        before = last_number(env)
        answer = call()
        assert "error" not in dict(answer), answer  # type: ignore[call-overload]
        started[name] = last_number(env) - before - 1  # that of the look
    # Each call is one fork of a warm shell, which becomes the last program, `mv` or `sed`. `new` looks itself, too.
    assert started == {"read": 1, "new": 2, "existing": 1, "patch": 1}

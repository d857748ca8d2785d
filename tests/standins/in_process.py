"""Connects a service's client in this process to a stand-in, and creates environments on it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from targets.threads import running_threads

from environments import BaseEnvironment, create_environment
from environments.conformance.check import wait_until
from standins.control import StandIn

LIVE = "HERMES_TEST_LIVE"
"""Set by `make test-live`: run against the real services."""

Make = Callable[..., BaseEnvironment]

_USE = """
import sys, time
from environments import create_environment
backend, task, how, nap = sys.argv[1:]
env = create_environment(backend, task_id=task, container_persistent=how == "kept")
env.execute(f"echo mine >~/file; sleep {nap} &")
print("ready", flush=True)
time.sleep(1000)
"""

_LEAVE = """
import sys
from environments import create_environment
env = create_environment(sys.argv[1], task_id="left")
print(env.execute("echo ran").output)
env.start("sleep 1000")
"""


@contextlib.contextmanager
def stand_in_for(module: str, image: str | None, close_client: Callable[[], object]) -> Iterator[StandIn]:
    """Run a stand-in, and set its environment variables for this process's client.

    Args:
        module: The server's module.
        image: The Docker image for commands; None to run them on this machine.
        close_client: Closes the client library's connections.
    """
    with StandIn(module, image) as stand_in, pytest.MonkeyPatch.context() as patch:
        for name, value in stand_in.variables.items():
            patch.setenv(name, value)
        try:
            yield stand_in
        finally:
            close_client()


@contextlib.contextmanager
def environments_of(backend: str) -> Iterator[Make]:
    """Yield a function that creates environments of a backend. They are cleaned up after the block."""
    made: list[BaseEnvironment] = []

    def make(**settings: object) -> BaseEnvironment:
        made.append(create_environment(backend, **settings))
        return made[-1]

    yield make
    for env in made:
        env.cleanup()


def use_and_be_killed(backend: str, task: str, how: str, nap: str) -> int:
    """Start a Python that makes a file and a process in a sandbox, and kill it.

    Args:
        backend: The backend.
        task: Task of the sandbox.
        how: `kept` for a sandbox with kept files.
        nap: Seconds of the sandbox's `sleep`.

    Returns:
        The id of the killed process.
    """
    words = [sys.executable, "-c", _USE, backend, task, how, nap]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        process.kill()
    return process.pid


def use_and_leave(backend: str) -> None:
    """Start a Python that uses a sandbox and ends without a cleanup, and check that its only warning is ours.

    Args:
        backend: The backend.
    """
    words = [sys.executable, "-W", "default", "-c", _LEAVE, backend]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "ran\n\n"
    told = [line for line in done.stderr.splitlines() if not line.startswith(" ")]
    assert len(told) == 1 and "was not cleaned up" in told[0], done.stderr


def threads_of_streams(env: BaseEnvironment) -> int:
    """Return the number of threads added by eight processes and eight sessions."""
    env.execute("true")
    processes, sessions = [], []
    before = running_threads()
    for number in range(8):
        processes.append(env.start("echo begun; exec sleep 1000"))
        sessions.append(env.session(str(number)))
        sessions[-1].execute("true")
    for process in processes:
        assert wait_until(lambda process=process: process.read(), 60)
    more = running_threads() - before
    for process in processes:
        process.kill()
    return len(more)

"""Runs the trials of `targets.trial`, with an exception at each moment of an operation, for tests."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from standins.daytona_client import daytona_stand_in
from standins.modal_client import modal_stand_in

from targets.backends import ssh_server
from targets.engines import PYTHON_IMAGE, require_bubblewrap, require_docker, require_singularity

LIMIT = 600.0
"""Time-out of a trial in seconds."""


@contextlib.contextmanager
def settings_of(backend: str, folder: Path) -> Iterator[Mapping[str, object]]:
    """Yield the arguments of `create_environment` for a backend; its engine or server lasts for the block.

    Args:
        backend: `local`, `bubblewrap` with a list of hosts, `docker`, `singularity`, `ssh`, `modal` or `daytona`; the
            last two on their stand-ins.
        folder: An empty directory for its files.
    """
    match backend:
        case "docker":
            require_docker().close()
            yield {"backend": backend, "image": PYTHON_IMAGE}
        case "singularity":
            yield {"backend": backend, "image": str(require_singularity().sandbox)}
        case "ssh":
            with ssh_server(folder) as server:
                yield {"backend": backend, **server.settings, "cwd": str(folder)}
        case "modal":
            with modal_stand_in():
                yield {"backend": backend}
        case "daytona":
            with daytona_stand_in():
                yield {"backend": backend}
        case "bubblewrap":
            require_bubblewrap()
            yield {"backend": backend, "cwd": str(folder), "network": ["example.org"]}
        case _:
            yield {"backend": backend}


def check_moments(backend: str, operation: str, most: int | None, folder: Path) -> None:
    """Try an operation in a new process, and fail if the next call is wrong.

    Args:
        backend: Name for `settings_of`.
        operation: A name of `OPERATIONS`.
        most: Maximum of tried places in the code; None tries every moment.
        folder: An empty directory.
    """
    with settings_of(backend, folder) as settings:
        found = _verdict_of(settings, operation, most)
    assert found.startswith("right"), found


def _verdict_of(settings: Mapping[str, object], operation: str, most: int | None) -> str:
    """Return the result of `targets.trial.verdict` in a new process, or a message about its time-out or end."""
    found, there = _FORKS.Pipe(duplex=False)
    process = _FORKS.Process(target=_try, args=(there, dict(settings), operation, most, dict(os.environ)))
    process.start()
    there.close()
    try:
        return str(found.recv()) if found.poll(LIMIT) else f"the trial goes on after {LIMIT:.0f} s"
    except EOFError:
        return "the trial's process ended without a verdict"
    finally:
        process.kill()
        process.join()


# A trial's imports cost a third of a second. The fork server makes them once.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["environments.conformance.check", "code_execution", "environments.local"])


def _try(
    there: Connection,
    settings: Mapping[str, object],
    operation: str,
    most: int | None,
    variables: Mapping[str, str],
) -> None:
    from targets.trial import verdict

    os.environ.update(variables)  # such as the address of a stand-in, newer than the fork server
    there.send(verdict(settings, operation, most))
    os._exit(0)  # a hanging thread would keep the interpreter alive


def trials(backends: Iterable[str], operations: Iterable[str]) -> list[object]:
    """Return each pair of a backend and an operation as parameters of a test.

    Args:
        backends: Names for `settings_of`.
        operations: Names of `OPERATIONS`.
    """
    return [
        pytest.param(backend, operation, id=f"{operation} on {backend}")
        for backend in backends
        for operation in operations
    ]

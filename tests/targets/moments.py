"""Trials of operations with an exception at each moment, as tests call them: see `targets.trial`."""

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
"""Seconds after which a trial is given up."""


@contextlib.contextmanager
def settings_of(backend: str, folder: Path) -> Iterator[Mapping[str, object]]:
    """The arguments of `create_environment` for a backend that is there as long as the context lasts.

    Args:
        backend: `local`, `bubblewrap` with a list of hosts, `docker`, `singularity`, `ssh`, `modal` or `daytona`; the
            last two on their stand-ins.
        folder: An empty directory for it.
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
    """Try an operation in a process of its own, and fail with what is wrong about the call behind it, if anything is.

    Args:
        backend: As of `settings_of`.
        operation: A name of `OPERATIONS`.
        most: Places in the code tried at most; None tries every moment.
        folder: An empty directory.
    """
    with settings_of(backend, folder) as settings:
        found = _verdict_of(settings, operation, most)
    assert found.startswith("right"), found


def _verdict_of(settings: Mapping[str, object], operation: str, most: int | None) -> str:
    """Return what `targets.trial.verdict` says in a process of its own, or that it says nothing."""
    found, there = _FORKS.Pipe(duplex=False)
    process = _FORKS.Process(target=_try, args=(there, dict(settings), operation, most, dict(os.environ)))
    process.start()
    there.close()
    try:
        return str(found.recv()) if found.poll(LIMIT) else f"it goes on after {LIMIT:.0f} s"
    except EOFError:
        return "it ended without a word"
    finally:
        process.kill()
        process.join()


# A trial's imports cost a third of a second: they are made once, in a process from which all others are forked.
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

    os.environ.update(variables)  # such as where a stand-in is, of which the server of forks does not know
    there.send(verdict(settings, operation, most))
    os._exit(0)  # a thread that hangs would keep the interpreter from its end


def trials(backends: Iterable[str], operations: Iterable[str]) -> list[object]:
    """Return each pair of a backend and an operation as parameters of a test.

    Args:
        backends: Names that `settings_of` takes.
        operations: Names of `OPERATIONS`.
    """
    return [
        pytest.param(backend, operation, id=f"{operation} on {backend}")
        for backend in backends
        for operation in operations
    ]

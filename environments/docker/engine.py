"""The connection to a Docker engine, or to Podman's service, which speaks the same API."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

from docker.errors import APIError
from docker.utils import kwargs_from_env
from requests.exceptions import RequestException

from environments.docker.address import UNIX, engine_address, unreachable
from environments.docker.connections import BreakableClient
from environments.docker.stream import ENGINE_ERRORS
from environments.errors import EnvironmentStartError
from environments.starting import current_start

ENGINE_TIMEOUT = 60
"""Seconds the engine may take to answer one request; making a container takes it 0.1 s where it is not loaded."""

_PAUSE = 0.1


def connect() -> BreakableClient:
    """Connect to the engine that DOCKER_HOST and its companions name.

    Raises:
        EnvironmentStartError: It cannot be reached.
        SettingsError: DOCKER_HOST cannot be understood.
    """
    address = engine_address()
    with reported("the Docker engine cannot be used"):
        if address.startswith(UNIX):
            # docker-py would find this out too, and leave the socket to the garbage collector.
            with socket.socket(socket.AF_UNIX) as trial:
                _reach(trial, address.removeprefix(UNIX))
        return BreakableClient(version="auto", timeout=ENGINE_TIMEOUT, **kwargs_from_env())


def _reach(trial: socket.socket, path: str) -> None:
    """Connect to a Unix socket, and wait where too many wait for the engine already."""
    trial.setblocking(False)
    deadline = time.monotonic() + ENGINE_TIMEOUT
    while True:
        try:
            return trial.connect(path)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        current_start().pause(_PAUSE)


@contextlib.contextmanager
def reported(what: str) -> Iterator[None]:
    """Turn an error of the engine into one of ours.

    Args:
        what: What could not be done.

    Raises:
        EnvironmentStartError: The engine refused or could not be reached.
    """
    try:
        yield
    except ENGINE_ERRORS as error:
        raise EnvironmentStartError(f"backend 'docker': {what}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """Return why the engine failed: its own words, or that it does not answer and what to do about it."""
    if isinstance(error, APIError):
        return str(error.explanation or error)
    if isinstance(error, RequestException | OSError) or "server API version" in str(error):
        return unreachable(error)
    return str(error)

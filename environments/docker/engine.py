"""The connection to a Docker engine, or to Podman's service, which speaks the same API."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

from docker.errors import APIError
from docker.utils import kwargs_from_env
from requests.exceptions import RequestException

from environments.docker.address import SSH, UNIX, engine_address, engine_host, unreachable
from environments.docker.connections import BreakableClient, dial_unix, forget_versions
from environments.docker.dial import dial, dial_error
from environments.docker.stream import ENGINE_ERRORS
from environments.errors import EnvironmentStartError
from environments.settings import EnvironmentSettings
from environments.shell.host import RemoteHost, host_of

ENGINE_TIMEOUT = 60
"""Seconds the engine may take to answer one request; making a container takes it 0.1 s where it is not loaded."""


class Engine:
    """The engine that the settings, or DOCKER_HOST and its companions, lead to.

    Args:
        settings: May say that it is on another machine.

    Raises:
        SettingsError: They, or DOCKER_HOST, cannot be understood.
        MissingExtraError: The client library is missing of what leads to that machine.
    """

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._over = settings.over
        self._host = host_of(settings, engine_host())

    @property
    def host(self) -> RemoteHost | None:
        """The machine that it is on, if that is reached by another backend."""
        return self._host

    @property
    def is_here(self) -> bool:
        """Whether it is reached by a socket of this machine."""
        return self._host is None and engine_address().startswith(UNIX)

    @property
    def max_streams(self) -> int | None:
        """How many streams there should be at once; None is as many as are asked for."""
        return self._host.max_streams if self._host else None

    @property
    def address(self) -> str:
        """Where it is, such as `unix:///var/run/docker.sock` or `ssh://user@host:22`.

        Raises:
            SettingsError: What says so cannot be understood.
        """
        return f"{self._over or SSH}://{self._host.place}" if self._host else engine_address()

    @property
    def identity(self) -> str:
        """What tells engines apart that settings lead to; empty for that of DOCKER_HOST alone."""
        return self.address if self._host else ""

    def client(self, earlier: BreakableClient | None = None) -> BreakableClient:
        """Return a client of the engine, connected anew where there is none, or its host was lost.

        Args:
            earlier: The one there was.

        Raises:
            EnvironmentStartError: It cannot be reached.
            SettingsError: DOCKER_HOST or the settings cannot be understood.
        """
        host = self._host
        if host is None:
            return earlier or connect()
        if earlier and not host.target_loss():
            return earlier
        if earlier:
            earlier.close()
        host.start_target()
        with reported("the Docker engine cannot be used"):
            return BreakableClient(self.address, partial(dial, host), version="auto", timeout=ENGINE_TIMEOUT)

    def loss(self) -> str | None:
        """Say why the host that it is on cannot be reached any more; None while it can, or if that is this machine."""
        return self._host.target_loss() if self._host else None

    def leave(self) -> None:
        """Disconnect from its host, for good."""
        if self._host:
            self._host.stop_target()


def connect() -> BreakableClient:
    """Connect to the engine that DOCKER_HOST and its companions name, without a host in between.

    Raises:
        EnvironmentStartError: It cannot be reached.
        SettingsError: DOCKER_HOST cannot be understood.
    """
    address = engine_address()
    with reported("the Docker engine cannot be used"):
        if address.startswith(UNIX):
            # docker-py would connect anew for each request, and leave what does not answer to the garbage collector.
            dial = partial(dial_unix, address.removeprefix(UNIX), ENGINE_TIMEOUT)
            return BreakableClient(address, dial, version="auto", timeout=ENGINE_TIMEOUT)
        return BreakableClient(address, version="auto", timeout=ENGINE_TIMEOUT, **kwargs_from_env())


@contextlib.contextmanager
def visited(settings: EnvironmentSettings | None) -> Iterator[BreakableClient]:
    """Have a client of an engine for as long as the block lasts.

    Args:
        settings: Lead to the engine; None is the one of DOCKER_HOST, as `connect` finds it.

    Raises:
        EnvironmentStartError: It cannot be reached.
        SettingsError: What leads there cannot be understood.
    """
    engine = Engine(settings) if settings else None
    try:
        with contextlib.closing(engine.client() if engine else connect()) as api:
            yield api
    finally:
        if engine:
            engine.leave()


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
        why = reason(error)
        if "client version" in why:  # there is an older engine at the same address by now
            forget_versions()
        raise EnvironmentStartError(f"backend 'docker': {what}: {why}") from error


def reason(error: Exception) -> str:
    """Return why the engine failed: its own words, or that it does not answer and what to do about it."""
    if isinstance(error, APIError):
        return str(error.explanation or error)
    if dialling := dial_error(error):
        return str(dialling)
    if isinstance(error, RequestException | OSError) or "server API version" in str(error):
        return unreachable(error)
    return str(error)

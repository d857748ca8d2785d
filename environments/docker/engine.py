"""The address of the engine, its clients, and the errors when it cannot be reached."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from docker.errors import APIError, DockerException, TLSParameterError
from docker.utils import kwargs_from_env, parse_host
from docker.utils.config import load_general_config
from requests.exceptions import RequestException

from environments.docker.client import (
    ENGINE_ERRORS,
    BreakableClient,
    Dial,
    DialError,
    causes,
    dial,
    dial_tcp,
    dial_unix,
    versions,
)
from environments.errors import EnvironmentStartError, SettingsError, UnsupportedError
from environments.redaction import without_secrets
from environments.settings import EnvironmentSettings
from environments.shell.host import RemoteHost, host_of

UNIX = "unix://"
SSH = "ssh"
_ROOTLESS = ("docker.sock", "podman/podman.sock")
"""Sockets of a user's own engine, below XDG_RUNTIME_DIR."""
TCP_PORT = 2375


class Engine:
    """The engine that the settings, or DOCKER_HOST and its companions, lead to.

    Args:
        settings: May say that it is on another machine; None is the engine of DOCKER_HOST, without a login.

    Raises:
        SettingsError: They, or DOCKER_HOST, cannot be understood.
        MissingExtraError: The client library is missing of what leads to that machine.
    """

    def __init__(self, settings: EnvironmentSettings | None) -> None:
        self._over = settings.over if settings else None
        login = os.environ.get("DOCKER_HOST", "").strip()
        url = login if login.startswith(f"{SSH}://") else None
        self.host: RemoteHost | None = host_of(settings, url) if settings else None
        """The machine that it is on, if that is reached by another backend."""

    @property
    def is_here(self) -> bool:
        """True if it is reached by a socket of this machine."""
        return self.host is None and engine_address().startswith(UNIX)

    @property
    def address(self) -> str:
        """The address, such as `unix:///var/run/docker.sock` or `ssh://user@host:22`.

        Raises:
            SettingsError: What says so cannot be understood.
        """
        return f"{self._over or SSH}://{self.host.place}" if self.host else engine_address()

    @property
    def identity(self) -> str:
        """The address of an engine that settings lead to; empty for that of DOCKER_HOST alone."""
        return self.address if self.host else ""

    def client(self, earlier: BreakableClient | None = None) -> BreakableClient:
        """Return a client of the engine, connected anew where there is none, or its host was lost.

        Args:
            earlier: The one there was.

        Raises:
            EnvironmentStartError: It cannot be reached.
            SettingsError: DOCKER_HOST or the settings cannot be understood.
        """
        host, address = self.host, self.address
        if earlier and not (host and host.target_loss()):
            return earlier
        if earlier:
            earlier.close()
        if host:
            host.start_target()
        with reported("the Docker engine cannot be used"):
            return BreakableClient(address, partial(dial, host) if host else _dial_to(address))

    def leave(self) -> None:
        """Disconnect from its host, for good."""
        if self.host:
            self.host.stop_target()


def _dial_to(address: str) -> Dial:
    """Return what connects to an engine that no login leads to.

    Raises:
        UnsupportedError: It is reached by TLS, whose sockets cannot be shared with what reads a process's output.
    """
    if address.startswith(UNIX):
        return partial(dial_unix, address.removeprefix(UNIX))
    parts = urlsplit(address)
    if parts.scheme != "tcp" or not parts.hostname:
        raise UnsupportedError(
            "backend 'docker' reaches an engine through a Unix socket, plain TCP or SSH, not through TLS; set "
            "DOCKER_HOST=ssh://user@host, or over=ssh (TERMINAL_OVER) and ssh_host"
        )
    return partial(dial_tcp, parts.hostname, parts.port or TCP_PORT)


@contextlib.contextmanager
def visited(settings: EnvironmentSettings | None) -> Iterator[BreakableClient]:
    """Have a client of an engine for as long as the block lasts.

    Args:
        settings: Lead to the engine; None is the one of DOCKER_HOST.

    Raises:
        EnvironmentStartError: It cannot be reached.
        SettingsError: What leads there cannot be understood.
    """
    engine = Engine(settings)
    try:
        with contextlib.closing(engine.client()) as api:
            yield api
    finally:
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
            versions.clear()
        raise EnvironmentStartError(f"backend 'docker': {what}: {why}") from error


def reason(error: Exception) -> str:
    """Return why the engine failed: its own words, or that it does not answer and what to do about it."""
    if isinstance(error, APIError):
        return str(error.explanation or error)
    if dialling := next((each for each in causes(error) if isinstance(each, DialError)), None):
        return str(dialling)
    if isinstance(error, RequestException | OSError) or "server API version" in str(error):
        return unreachable(error)
    return str(error)


def engine_address() -> str:
    """Return where the engine is: DOCKER_HOST, or this machine's usual socket.

    Raises:
        SettingsError: DOCKER_HOST, or what goes with it, cannot be understood.
    """
    host = os.environ.get("DOCKER_HOST")
    try:
        given = kwargs_from_env()
        address = str(parse_host(given.get("base_url"), tls=bool(given.get("tls"))))
        return address.removeprefix("http+").replace("http://", "tcp://", 1)
    except TLSParameterError as error:
        raise SettingsError(
            "backend 'docker': DOCKER_TLS_VERIFY is set, and DOCKER_CERT_PATH leads to no certificate; unset it, or "
            "set both"
        ) from error
    except DockerException as error:
        shown = without_secrets(f"{host!r} ({error})")  # a URL may hold a password
        raise SettingsError(
            f"backend 'docker': DOCKER_HOST is {shown}; it should be like unix:///var/run/docker.sock, "
            "tcp://host:2375 or ssh://user@host"
        ) from None


def unreachable(error: BaseException) -> str:
    """Say why the engine does not answer, and what helps.

    Args:
        error: What was raised, with the system's own error somewhere beneath it.
    """
    address = engine_address()
    *_, cause = causes(error)  # the system's own error, which the HTTP library wraps several times
    code = cause.errno if isinstance(cause, OSError) else None
    why = str(getattr(cause, "strerror", None) or cause)
    if address.startswith(UNIX) and code in (errno.EACCES, errno.EPERM):
        return _not_allowed(Path(address.removeprefix(UNIX)), why)
    others = "".join(f". {hint}" for hint in (_own_engine(address), _context()) if hint)
    return f"the engine at {address} does not answer ({why}); start it, or set DOCKER_HOST to one that runs{others}"


def _not_allowed(path: Path, why: str) -> str:
    user = pwd.getpwuid(os.geteuid()).pw_name
    try:
        group = grp.getgrgid(path.stat().st_gid)
    except (OSError, KeyError):
        remedy = "ask who runs it"
    else:
        remedy = f"add the user to the group {group.gr_name} (sudo usermod -aG {group.gr_name} {user}), and log in anew"
        if user in group.gr_mem:
            remedy = f"the user is in the group {group.gr_name} since the login; log in anew"
        elif group.gr_gid == 0:
            remedy = "ask root, whose it is"
    own = _own_engine(f"{UNIX}{path}") or "Or run an engine of the user's own (rootless Docker or Podman)"
    return f"user {user} may not use the engine at {UNIX}{path} ({why}): {remedy}. {own}, and set DOCKER_HOST to it"


def _own_engine(address: str) -> str | None:
    """Say where else an engine of the user's own listens."""
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    sockets = (f"{UNIX}{folder}/{name}" for name in _ROOTLESS if Path(folder, name).is_socket())
    other = next((socket for socket in sockets if socket != address), None)
    return f"There is one at {other}" if other else None


def _context() -> str | None:
    """Say so if the docker program goes by a context, of which nothing is known here."""
    context = os.environ.get("DOCKER_CONTEXT") or load_general_config().get("currentContext") or "default"
    if os.environ.get("DOCKER_HOST") or context == "default":
        return None
    return (
        f"The docker program uses the context {context!r}, which is not read here; `docker context inspect {context}` "
        "shows the host to set"
    )

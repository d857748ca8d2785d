"""Address of the Docker engine, its clients, and the errors of an unreachable engine."""

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


class DockerEngine:
    """The engine of the settings, or of DOCKER_HOST and its companions.

    Args:
        settings: May name another machine. None is the engine of DOCKER_HOST, without a login.

    Raises:
        SettingsError: The settings, or DOCKER_HOST, are not understood.
        MissingExtraError: The client library of the backend for that machine is not installed.
    """

    def __init__(self, settings: EnvironmentSettings | None) -> None:
        self._over = settings.over if settings else None
        login = os.environ.get("DOCKER_HOST", "").strip()
        url = login if login.startswith(f"{SSH}://") else None
        try:
            self.host: RemoteHost | None = host_of(settings, url) if settings else None
        except SettingsError as error:
            if self._over or not url:
                raise
            raise SettingsError(f"backend 'docker': DOCKER_HOST: {error}") from None
        """The engine's machine, if another backend leads there."""

    @property
    def is_here(self) -> bool:
        """True if the engine is reached by a Unix socket of this machine."""
        return self.host is None and engine_address().startswith(UNIX)

    @property
    def address(self) -> str:
        """The address, such as `unix:///var/run/docker.sock` or `ssh://user@host:22`.

        Raises:
            SettingsError: DOCKER_HOST, or a companion, is not understood.
        """
        return f"{self._over or SSH}://{self.host.place}" if self.host else engine_address()

    @property
    def identity(self) -> str:
        """The address of an engine named by settings; empty for the engine of DOCKER_HOST alone."""
        return self.address if self.host else ""

    def client(self, earlier: BreakableClient | None = None) -> BreakableClient:
        """Return a client of the engine. Connects anew without an earlier client, or after the loss of its host.

        Args:
            earlier: The earlier client, if any.

        Raises:
            EnvironmentStartError: The engine cannot be reached.
            SettingsError: DOCKER_HOST or the settings are not understood.
        """
        host, address = self.host, self.address
        if earlier and not (host and host.target_loss()):
            return earlier
        if earlier:
            earlier.close()
        if host:
            _start(host, address)
        with start_errors("the Docker engine cannot be used"):
            return BreakableClient(address, partial(dial, host) if host else _dial_to(address))

    def disconnect(self) -> None:
        """Disconnect from the engine's host, for good."""
        if self.host:
            self.host.stop_target()


def _start(host: RemoteHost, address: str) -> None:
    try:
        host.start_target()
    except EnvironmentStartError as error:
        if type(error) is not EnvironmentStartError:  # such as that of a stopped start
            raise
        raise EnvironmentStartError(f"backend 'docker': no connection to the engine at {address}: {error}") from error


def _dial_to(address: str) -> Dial:
    """Return the dial function for an engine that is reached without a login.

    Raises:
        UnsupportedError: The address needs TLS: a TLS socket cannot be read as the plain socket of an exec stream.
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
def connected(settings: EnvironmentSettings | None) -> Iterator[BreakableClient]:
    """Provide a client of an engine during the block.

    Args:
        settings: Lead to the engine; None is the engine of DOCKER_HOST.

    Raises:
        EnvironmentStartError: The engine cannot be reached.
        SettingsError: DOCKER_HOST or the settings are not understood.
    """
    engine = DockerEngine(settings)
    try:
        with contextlib.closing(engine.client()) as api:
            yield api
    finally:
        engine.disconnect()


@contextlib.contextmanager
def start_errors(action: str) -> Iterator[None]:
    """Turn an error of the engine into an EnvironmentStartError.

    Args:
        action: The failed action, for the message.

    Raises:
        EnvironmentStartError: The engine refused or could not be reached.
    """
    try:
        yield
    except ENGINE_ERRORS as error:
        why = reason(error)
        if "client version" in why:  # an older engine has taken over the address
            versions.clear()
        raise EnvironmentStartError(f"backend 'docker': {action}: {why}") from error


def reason(error: Exception) -> str:
    """Return why the engine failed: its own words, or for an unreachable engine the cause and the remedy."""
    if isinstance(error, APIError):
        return str(error.explanation or error)
    if dialling := next((each for each in causes(error) if isinstance(each, DialError)), None):
        return str(dialling)
    if isinstance(error, RequestException | OSError) or "server API version" in str(error):
        return unreachable(error)
    return str(error)


def engine_address() -> str:
    """Return the address of the engine: DOCKER_HOST, or this machine's usual socket.

    Raises:
        SettingsError: DOCKER_HOST, or a companion such as DOCKER_CERT_PATH, is not understood.
    """
    host = os.environ.get("DOCKER_HOST")
    try:
        given = kwargs_from_env()
        address = str(parse_host(given.get("base_url"), tls=bool(given.get("tls"))))
        return address.removeprefix("http+").replace("http://", "tcp://", 1)
    except TLSParameterError as error:
        raise SettingsError(
            "backend 'docker': DOCKER_TLS_VERIFY is set, and DOCKER_CERT_PATH has no certificate; unset the first, or "
            "set both"
        ) from error
    except DockerException as error:
        shown = without_secrets(f"{host!r} ({error})")  # a URL may hold a password
        raise SettingsError(
            f"backend 'docker': DOCKER_HOST is {shown}; it should be like unix:///var/run/docker.sock, "
            "tcp://host:2375 or ssh://user@host"
        ) from None


def unreachable(error: BaseException) -> str:
    """Return why the engine does not answer, and the remedy.

    Args:
        error: An error with the system's own error among its causes.
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
        remedy = "ask its administrator"
    else:
        remedy = f"add the user to the group {group.gr_name} (sudo usermod -aG {group.gr_name} {user}), and log in anew"
        if user in group.gr_mem:
            remedy = f"the user is in the group {group.gr_name} since the login; log in anew"
        elif group.gr_gid == 0:
            remedy = "ask root, the owner"
    own = _own_engine(f"{UNIX}{path}") or "Or run an engine of the user's own (rootless Docker or Podman)"
    return f"user {user} may not use the engine at {UNIX}{path} ({why}): {remedy}. {own}, and set DOCKER_HOST to it"


def _own_engine(address: str) -> str | None:
    """Return a hint at another engine of the user, if there is a socket."""
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    sockets = (f"{UNIX}{folder}/{name}" for name in _ROOTLESS if Path(folder, name).is_socket())
    other = next((socket for socket in sockets if socket != address), None)
    return f"There is one at {other}" if other else None


def _context() -> str | None:
    """Return a hint if the docker program uses a context: contexts are not read here."""
    context = os.environ.get("DOCKER_CONTEXT") or load_general_config().get("currentContext") or "default"
    if os.environ.get("DOCKER_HOST") or context == "default":
        return None
    return (
        f"The docker program uses the context {context!r}, which is not read here; `docker context inspect {context}` "
        "shows the host to set"
    )

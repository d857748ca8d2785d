"""Where the engine is, and what helps when it cannot be reached there."""

from __future__ import annotations

import errno
import grp
import os
import pwd
from pathlib import Path

from docker.errors import DockerException, TLSParameterError
from docker.utils import kwargs_from_env, parse_host
from docker.utils.config import load_general_config

from environments.errors import SettingsError

UNIX = "unix://"
SSH = "ssh"
_ROOTLESS = ("docker.sock", "podman/podman.sock")
"""Where a user's own engine listens, below XDG_RUNTIME_DIR."""


def engine_address() -> str:
    """Return where the engine is: DOCKER_HOST, or this machine's usual socket.

    Raises:
        SettingsError: DOCKER_HOST, or what goes with it, cannot be understood.
    """
    host = os.environ.get("DOCKER_HOST")
    try:
        return str(parse_host(kwargs_from_env().get("base_url"))).removeprefix("http+")
    except TLSParameterError as error:
        raise SettingsError(
            "backend 'docker': DOCKER_TLS_VERIFY is set, and DOCKER_CERT_PATH leads to no certificate; unset it, or "
            "set both"
        ) from error
    except DockerException as error:
        raise SettingsError(
            f"backend 'docker': DOCKER_HOST is {host!r} ({error}); it should be like unix:///var/run/docker.sock, "
            "tcp://host:2375 or ssh://user@host"
        ) from error


def engine_host() -> str | None:
    """Return the URL of the machine that the engine is on, if DOCKER_HOST names one to log in at, and else None."""
    address = os.environ.get("DOCKER_HOST", "").strip()
    return address if address.startswith(f"{SSH}://") else None


def unreachable(error: BaseException) -> str:
    """Say why the engine does not answer, and what helps.

    Args:
        error: What was raised, with the system's own error somewhere beneath it.
    """
    address = engine_address()
    cause = _innermost(error)
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


def _innermost(error: BaseException) -> BaseException:
    """Return the system's own error, which the HTTP library wraps several times."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return error

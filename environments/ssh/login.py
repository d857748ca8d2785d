"""Login at an SSH server: host keys, private keys, and error messages with a remedy."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
from collections.abc import Collection
from pathlib import Path

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from environments.log import logger
from environments.ssh.config import DEFAULT_PORT, Route
from environments.ssh.settings import SSHSettings

log = logger(__name__)

CONNECT_TIMEOUT = 20.0
"""Seconds for each of: a TCP connection, the key exchange, the login, and the opening of a channel."""
_USUAL_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")
"""Names of keys in ~/.ssh that are offered without a configured key."""
_PUBLIC = re.compile(rb"(ssh|ecdsa|sk-\w+)-\S+ AAAA|---- BEGIN SSH2 PUBLIC KEY")
_KEY_HINT = "Set key (TERMINAL_SSH_KEY) to the path of a private key"


def failure_message(route: Route, own: SSHSettings, error: Exception, *, after_key_exchange: bool) -> str:
    """Return the message for a failed connection, with the reason and the remedy.

    Args:
        route: The route.
        own: The settings, with the offered secrets.
        error: The exception.
        after_key_exchange: True if the key exchange was complete, and the login failed.
    """
    return f"backend 'ssh' cannot connect to {route}: {_reason(route, own, error, after_key_exchange)}"


def _reason(route: Route, own: SSHSettings, error: Exception, after_key_exchange: bool) -> str:
    if isinstance(error, paramiko.BadHostKeyException):
        return _changed_key(route, error)
    if why := _unreachable_reason(route, error):
        return why
    if after_key_exchange or isinstance(error, paramiko.AuthenticationException):
        return _login_refusal(route, own, error)
    return f"{error or 'the connection was closed'}; check that an SSH server answers there, and its log"


def _unreachable_reason(route: Route, error: Exception) -> str | None:
    match error:
        case socket.gaierror():
            return f"there is no host of that name ({error.strerror}); check TERMINAL_SSH_HOST"
        case TimeoutError():
            return f"no answer for {CONNECT_TIMEOUT:.0f} s; check host and port, and whether a firewall drops it"
        case ConnectionRefusedError():
            return "nothing listens there; check TERMINAL_SSH_PORT, and that an SSH server runs"
        case paramiko.SSHException() if "not found in known_hosts" in str(error):
            file = route.known_hosts[0] if route.known_hosts else "a known_hosts file"
            return f"its host key is not known, and StrictHostKeyChecking is on; add it to {file}"
        case paramiko.SSHException() if "known_hosts has as revoked" in str(error):
            return f"{error}; ask the administrator of the server"
    return None


def _login_refusal(route: Route, own: SSHSettings, error: Exception) -> str:
    """Return the reason for a refused login: the unusable keys, or else everything that was offered."""
    usual = () if route.key_files else (Path("~/.ssh", name).expanduser() for name in _USUAL_KEYS)
    keys = [*route.key_files, *(path for path in usual if path.is_file())]
    problems = [problem for path in keys if (problem := _key_problem(path, own))]
    offered = [f"the key {path}" for path in keys if not _key_problem(path, own)]
    in_agent = _keys_in_agent() if route.other_keys else 0
    offered += [f"{in_agent} of the agent"] if in_agent else []
    offered += ["the password"] if own.password else []
    said = "; ".join(problems)
    if not offered:
        return said or f"there is nothing to log in with. {_KEY_HINT}, or {_agent_hint(route)}"
    refused = (
        f"the server refused the login ({error}). Offered were {', '.join(offered)}; check TERMINAL_SSH_USER, "
        "TERMINAL_SSH_KEY and what the server allows: the public key belongs in ~/.ssh/authorized_keys there"
    )
    return f"{said}. Apart from that, {refused}" if said else refused


def _key_problem(path: Path, own: SSHSettings) -> str | None:
    """Return why a file is unusable as a private key, and the remedy; None if it is usable."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return f"the key {path} cannot be read: {error.strerror}"
    if _PUBLIC.match(data):
        return _public_key(path)
    try:
        paramiko.PKey.from_path(path)
    except (TypeError, paramiko.PasswordRequiredException):
        return _passphrase_problem(path, own)
    except (ValueError, paramiko.SSHException):
        return f"{path} is no private key that can be used. {_KEY_HINT}"
    return None


def _passphrase_problem(path: Path, own: SSHSettings) -> str | None:
    if not own.passphrase:
        return f"the key {path} has a passphrase; set TERMINAL_SSH_PASSPHRASE, or give it to an agent: ssh-add {path}"
    try:
        paramiko.PKey.from_path(path, own.passphrase.get_secret_value().encode())  # type: ignore[arg-type]  # bytes
    except (TypeError, ValueError, paramiko.SSHException):
        return (
            f"TERMINAL_SSH_PASSPHRASE does not open the key {path}, or it is damaged; `ssh-keygen -y -f {path}` tries "
            "a passphrase"
        )
    return None


def _public_key(path: Path) -> str:
    """Return the message for a public key in place of a private key, with the path of the private key."""
    private = path.with_suffix("")
    found = path.suffix == ".pub" and private.is_file()
    return (
        f"{path} is the public half of a key, for the server; set key (TERMINAL_SSH_KEY) to the private "
        f"half{f', {private}' if found else ''}"
    )


def _keys_in_agent() -> int:
    try:
        with contextlib.closing(paramiko.Agent()) as agent:
            return len(agent.get_keys())
    except (paramiko.SSHException, OSError):
        return 0


def _agent_hint(route: Route) -> str:
    if not route.other_keys:
        return "drop IdentitiesOnly from the SSH client's configuration, so that an agent's keys are offered"
    if os.environ.get("SSH_AUTH_SOCK"):
        return "add one to the agent, which has none or does not answer (ssh-add PATH, with SSH_AUTH_SOCK as here)"
    return "add one to an agent (eval $(ssh-agent); ssh-add PATH): SSH_AUTH_SOCK is not set here"


# The host's key.


class AcceptNew(paramiko.MissingHostKeyPolicy):
    """Accepts the key of an unknown host, logs its fingerprint, and adds it to known_hosts.

    paramiko's own policy logs nothing, and rewrites the whole file without its comments and markers.

    Args:
        file: The file to add keys to; None adds them nowhere.
        revoked: Revoked keys, in base64.
    """

    def __init__(self, file: Path | None, revoked: Collection[str]) -> None:
        self._file = file
        self._revoked = revoked

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Append one line for the host, see `paramiko.MissingHostKeyPolicy`."""
        if key.get_base64() in self._revoked:
            raise paramiko.SSHException(
                f"the server shows the key {_fingerprint(key)}, which known_hosts has as revoked"
            )
        entry = f"{hostname} {key.get_name()} {key.get_base64()}"
        if self._file is None:
            outcome = "not written down, as no known_hosts file is configured"
        else:
            try:
                _append(self._file, entry)
                outcome = f"added to {self._file}"
            except OSError as error:
                outcome = f"not added to {self._file} ({error.strerror})"
        if entry not in _accepted:
            _accepted.add(entry)
            log.warning(
                "backend 'ssh': accepted the key of unknown host %s: %s; %s", hostname, _fingerprint(key), outcome
            )


_accepted: set[str] = set()
"""Entries of unknown hosts that this process has accepted and logged."""


def _append(file: Path, line: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    begin = "" if file.read_bytes()[-1:] in (b"", b"\n") else "\n"
    with file.open("a", encoding="utf-8") as known_hosts:
        known_hosts.write(f"{begin}{line}\n")


def check_host_keys(client: paramiko.SSHClient, route: Route) -> None:
    """Make `client` check the server's key against the files of the route."""
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in route.known_hosts if file.is_file()]
    lines = [line.strip() for text in texts for line in text.splitlines()]
    revoked = {words[3] for line in lines if line.startswith("@revoked") and len(words := line.split()) > 3}
    # paramiko rejects a whole file for one line that it does not understand.
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as understood:
        understood.writelines(f"{line}\n" for line in lines if _is_understood(line) and not revoked & {*line.split()})
        understood.flush()
        client.load_system_host_keys(understood.name)
    accept = AcceptNew(route.known_hosts[0] if route.known_hosts else None, revoked)
    client.set_missing_host_key_policy(accept if route.accept_new else paramiko.RejectPolicy())


def _is_understood(line: str) -> bool:
    if not line or line[0] in "#@":
        return False
    try:
        return HostKeyEntry.from_line(line) is not None
    except (InvalidHostKey, paramiko.SSHException, ValueError):
        return False


def _changed_key(route: Route, error: paramiko.BadHostKeyException) -> str:
    name, port = route.known_as
    named = name if port == DEFAULT_PORT else f"[{name}]:{port}"
    removal = "; ".join(f"ssh-keygen -R '{named}' -f {file}" for file in route.known_hosts if file.is_file())
    return (
        f"the host key of {named} has changed: known is {_fingerprint(error.expected_key)}, the server shows "
        f"{_fingerprint(error.key)}. Another machine may be posing as the server, so nothing was sent to it. If it was "
        f"set up anew, remove the old key: {removal}"
    )


def _fingerprint(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {key.fingerprint}"

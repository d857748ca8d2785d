"""Host keys: known ones are checked, those of unknown hosts are accepted once and written down."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Collection
from pathlib import Path

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from environments.ssh.config import Route


class AcceptNew(paramiko.MissingHostKeyPolicy):
    """Accepts the key of a host never seen before, and adds it to known_hosts.

    The policy of paramiko that does so writes the whole file anew, without the comments and marked lines in it.
    """

    def __init__(self, file: Path | None, revoked: Collection[str]) -> None:
        self._file = file
        self._revoked = revoked

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Append one line for the host."""
        if key.get_base64() in self._revoked:
            raise paramiko.SSHException(
                f"the server shows the key {fingerprint(key)}, which known_hosts has as revoked"
            )
        if self._file is None:
            return
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        line = f"{hostname} {key.get_name()} {key.get_base64()}\n".encode()
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def check_host_keys(client: paramiko.SSHClient, route: Route) -> None:
    """Have `client` check the server's key as the route says."""
    lines = [line for file in route.known_hosts for line in _lines(file)]
    revoked = {words[3] for line in lines if line.startswith("@revoked") and len(words := line.split()) > 3}
    # paramiko fails on a whole file for one line that it does not understand.
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as understood:
        understood.writelines(f"{line}\n" for line in lines if _is_understood(line) and not revoked & {*line.split()})
        understood.flush()
        client.load_system_host_keys(understood.name)
    accept = AcceptNew(route.known_hosts[0] if route.known_hosts else None, revoked)
    client.set_missing_host_key_policy(accept if route.accept_new else paramiko.RejectPolicy())


def _lines(file: Path) -> list[str]:
    if not file.is_file():
        return []
    return [line.strip() for line in file.read_text(encoding="utf-8", errors="replace").splitlines()]


def _is_understood(line: str) -> bool:
    if not line or line[0] in "#@":
        return False
    try:
        return HostKeyEntry.from_line(line) is not None
    except (InvalidHostKey, paramiko.SSHException, ValueError):
        return False


def changed_key(route: Route, error: paramiko.BadHostKeyException) -> str:
    """Say that the host shows another key than the one that is known, and what to do about it."""
    name = lookup_name(route)
    named = name if lookup_port(route) == 22 else f"[{name}]:{route.port}"
    return (
        f"the host key of {named} has changed: known is {fingerprint(error.expected_key)}, the server shows "
        f"{fingerprint(error.key)}. Somebody may be posing as the server, so nothing was sent to it. If the server was "
        f"really set up anew, remove the old key: {_removal(route, named)}"
    )


def lookup_name(route: Route) -> str:
    """Return the name under which a host's key is known."""
    return route.host_key_name or route.host


def lookup_port(route: Route) -> int:
    """Return the port that is part of that name; with an alias, none is."""
    return 22 if route.host_key_name else route.port


def fingerprint(key: paramiko.PKey) -> str:
    """Return a key's kind and fingerprint in the form that OpenSSH shows."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


def _removal(route: Route, named: str) -> str:
    files = [file for file in route.known_hosts if file.is_file()]
    return "; ".join(f"ssh-keygen -R '{named}' -f {file}" for file in files)

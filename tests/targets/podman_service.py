"""Podman's service with the API of Docker's engine, on a socket of this test."""

from __future__ import annotations

import contextlib
import fcntl
import secrets
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from targets.engines import STATE, unavailable

PROGRAM = STATE / "podman/podman"
"""The program written by e2e/setup: `podman` with its own storage and settings, rootless if possible."""
SOCKETS = Path("/run/e2e-podman")
UP_LIMIT = 60.0
_MIGRATE = "system migrate"
"""The repair that rootless Podman demands if it has containers and all their processes are gone, as after a crash."""


@dataclass(frozen=True, slots=True)
class Podman:
    """A running service."""

    url: str
    """Value for DOCKER_HOST."""
    holds_limits: bool
    """True if limits of memory, processors and processes hold. Rootless on cgroups v1, they do not."""


@contextlib.contextmanager
def podman_service() -> Iterator[Podman]:
    """Run the service for the block."""
    if not PROGRAM.exists():
        unavailable(f"no {PROGRAM}")
    service, socket = _started()
    try:
        yield Podman(f"unix://{socket}", _holds_limits())
    finally:
        service.terminate()
        service.communicate()
        socket.unlink(missing_ok=True)


def _started() -> tuple[subprocess.Popen[bytes], Path]:
    """Start the service, after a repair if an earlier run was killed. A repair stops other services' containers."""
    with (SOCKETS / "starting.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return _start()
        except _NotUpError as error:
            if _MIGRATE not in str(error):
                unavailable(f"Podman's service does not come up: {error}")
        subprocess.run([PROGRAM, *_MIGRATE.split()], capture_output=True, check=False)
        try:
            return _start()
        except _NotUpError as error:
            unavailable(f"Podman's service does not come up: {error}")


class _NotUpError(Exception):
    """The service ended or does not respond."""


def _start() -> tuple[subprocess.Popen[bytes], Path]:
    socket = SOCKETS / f"{secrets.token_hex(4)}.sock"
    command = [PROGRAM, "system", "service", "--time", "0", f"unix://{socket}"]
    service = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + UP_LIMIT
    while not socket.is_socket():
        if service.poll() is not None or time.monotonic() > deadline:
            service.terminate()
            raise _NotUpError(service.communicate()[1].decode())
        time.sleep(0.05)
    return service, socket


def _holds_limits() -> bool:
    form = "{{.Host.Security.Rootless}} {{.Host.CgroupsVersion}}"
    done = subprocess.run([PROGRAM, "info", "--format", form], capture_output=True, text=True, check=True)
    return done.stdout.split() != ["true", "v1"]

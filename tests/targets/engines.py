"""The real engines that tests run on.

Each `require_` function returns an engine. If the engine is missing, the test fails with the reason and the remedy: a
ring of tests includes all engines.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from environments import TerminalError

if TYPE_CHECKING:
    import docker

STATE = Path(os.environ.get("E2E_STATE") or "/var/cache/e2e")
PYTHON_IMAGE = "e2e-python:bookworm"
SSHD_IMAGE = "e2e-sshd:bookworm"
MINIMAL_IMAGE = "e2e-minimal:bookworm"
"""An image with dash and busybox's coreutils, without bash and Python."""
MENDED_BY = "run e2e/setup as root on Debian"


@dataclass(frozen=True, slots=True)
class Singularity:
    """Singularity's program and the tests' images."""

    program: Path
    sandbox: Path
    sif: Path


def require_docker() -> docker.DockerClient:
    """Return a client of a running Docker engine with the tests' images. The caller closes the client."""
    if problem := _docker_problem():
        unavailable(problem)
    import docker

    return docker.from_env()


def run_as_root(container: str, command: str) -> None:
    """Run a shell command in a container. docker-py's exec leaves its socket open."""
    done = subprocess.run(
        ["docker", "exec", "--user", "0", container, "sh", "-c", command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def require_sshd() -> Path:
    """Return the path of sshd. Any user may start it on a high port."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        unavailable("no sshd on this machine")
    return Path(found)


def require_singularity() -> Singularity:
    """Return Singularity's (or Apptainer's) program, a sandbox directory and an image file."""
    program = shutil.which("singularity")
    if program is None:
        unavailable("no singularity on PATH")
    sandbox, sif = STATE / "e2e-python.sandbox", STATE / "e2e-python.sif"
    for path in (sandbox, sif):
        if not path.exists():
            unavailable(f"no {path}")
    return Singularity(Path(program), sandbox, sif)


def require_bubblewrap() -> None:
    """Fail unless this user may start a sandbox."""
    from environments.bubblewrap.sandbox import trial

    try:
        trial()
    except TerminalError as error:
        unavailable(str(error))


@cache
def _docker_problem() -> str | None:
    try:
        import docker
        from docker.errors import DockerException
    except ModuleNotFoundError:
        return "the docker package is not installed (pip install 'hermes-environments[docker]')"
    try:
        client = docker.from_env(timeout=10)
    except DockerException as error:
        return f"no Docker engine answers: {error}"
    try:
        have = {tag for image in client.images.list() for tag in image.tags}
    except (DockerException, OSError) as error:
        return f"no Docker engine answers: {error}"
    finally:
        client.close()
    # Podman lists an image without a registry under localhost/.
    have |= {tag.removeprefix("localhost/") for tag in have}
    missing = {PYTHON_IMAGE, SSHD_IMAGE, MINIMAL_IMAGE} - have
    return f"Docker has no image {', '.join(sorted(missing))}" if missing else None


def unavailable(problem: str) -> NoReturn:
    """Fail the test with the problem and its remedy."""
    pytest.fail(f"{problem}; {MENDED_BY}")

"""Places for suites: our backends, and the frameworks' own backends."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from targets.engines import PYTHON_IMAGE, require_docker, require_singularity
from targets.ssh_server import SSHServer


@dataclass(frozen=True, slots=True)
class Place:
    """A backend of ours with its settings, or one of a framework's own. `suites/shared/place.py` reads it."""

    name: str
    tags: tuple[str, ...]
    """Properties that make some tests fail, such as `root`."""
    settings: dict[str, object] = field(default_factory=dict)
    """The arguments of `create_environment`, or of the framework's own backend."""


IMAGE = "e2e-plugs:bookworm"
"""The tests' Python image, with additions for the frameworks' tests."""


def _image() -> str:
    """Build the image, or do nothing if the image exists, and return its name."""
    require_docker().close()
    folder = Path(__file__).with_name("image")
    tag = f"TAG={PYTHON_IMAGE.partition(':')[2]}"
    build = ["docker", "build", "--quiet", "--build-arg", tag, "--tag", IMAGE, str(folder)]
    subprocess.run(build, check=True, capture_output=True, env={**os.environ, "DOCKER_BUILDKIT": "0"})
    return IMAGE


def _root_here() -> tuple[str, ...]:
    return ("root",) if os.geteuid() == 0 else ()


@contextlib.contextmanager
def local() -> Iterator[Place]:
    """This machine."""
    yield Place("local", ("local", *_root_here()), {"backend": "local"})


@contextlib.contextmanager
def docker() -> Iterator[Place]:
    """A container, as root."""
    yield Place("docker", ("docker", "root"), {"backend": "docker", "image": _image()})


@contextlib.contextmanager
def docker_user() -> Iterator[Place]:
    """A container with an ordinary user."""
    yield Place("docker user", ("docker", "user"), {"backend": "docker", "image": _image(), "user": "1000:1000"})


@contextlib.contextmanager
def ssh() -> Iterator[Place]:
    """An SSH server on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        server = SSHServer(Path(folder))
        server.start()
        try:
            yield Place("ssh", ("ssh", *_root_here()), {"backend": "ssh", **server.settings})
        finally:
            server.stop()


@contextlib.contextmanager
def singularity() -> Iterator[Place]:
    """An instance over a sandbox directory."""
    image = str(require_singularity().sandbox)
    yield Place("singularity", ("singularity", *_root_here()), {"backend": "singularity", "image": image})


PLACES: dict[str, Callable[[], AbstractContextManager[Place]]] = {
    "local": local,
    "docker": docker,
    "docker user": docker_user,
    "ssh": ssh,
    "singularity": singularity,
}


@contextlib.contextmanager
def own(name: str) -> Iterator[Place]:
    """A backend of the framework's own, on the engine and image of our backend with the same name."""
    with PLACES[name]() as ours:
        reach = {key: value for key, value in ours.settings.items() if key != "backend"}
        yield Place(f"own {name}", ("own",), {"image": None, **reach})

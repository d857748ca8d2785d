"""The environment and target of the soak test."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.images import DOCKER_IMAGE
from benchmarks.ssh import HOST, start_server
from environments import BaseEnvironment, create_environment, load_settings


@contextlib.contextmanager
def open_environment(backend: str) -> Iterator[BaseEnvironment]:
    """Make an environment and its target. The block cleans the environment up itself.

    Args:
        backend: The backend's name. `ssh` uses a server of our own on this machine; the others use the settings of
            `create_environment`.
    """
    with contextlib.ExitStack() as opened:
        if backend == "ssh":
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="hermes-benchmark-")))
            start_server(folder, opened)
            env = create_environment("ssh", host=HOST, config=str(folder / "client"))
        elif backend == "docker":
            env = create_environment("docker", image=load_settings("docker").docker.image or DOCKER_IMAGE)
        else:
            env = create_environment(backend)
        opened.callback(env.cleanup)
        yield env

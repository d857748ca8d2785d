"""Failed and stopped builds of an image."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from targets.engines import MINIMAL_IMAGE

from environments import EnvironmentStartError, create_environment
from environments.conformance.check import wait_until
from environments.docker.image import BUILT
from environments.errors import StartStoppedError

pytestmark = pytest.mark.alone("builds")


@pytest.fixture
def folder(tmp_path: Path, engine: docker.DockerClient) -> Iterator[Path]:
    """A unique build context. Its images are removed in the end."""
    place = tmp_path / "context"
    place.mkdir()
    (place / "Dockerfile").write_text(f"FROM {MINIMAL_IMAGE}\nCOPY . /made\nRUN echo in the step\n")
    (place / "file").write_text(secrets.token_hex(8))
    (place / ".dockerignore").write_text("# not these\n*.secret\n")
    (place / "key.secret").write_text("1")
    steps_before = {image.id for image in engine.images.list(filters={"dangling": True})}
    yield place
    for image in built_of(engine, place):
        engine.images.remove(image.id, force=True)
    for image in engine.images.list(filters={"dangling": True}):  # left by an unfinished build
        if image.id not in steps_before:
            engine.images.remove(image.id)


def built_of(engine: docker.DockerClient, folder: Path) -> list:
    return engine.images.list(filters={"label": f"{BUILT}={folder}"})


def test_a_build_that_fails_says_what_its_last_step_said(folder, engine):
    with (folder / "Dockerfile").open("a") as file:
        file.write("RUN echo this is why; exit 3\n")
    with (
        create_environment("docker", build=str(folder)) as env,
        pytest.raises(EnvironmentStartError, match=r"(?s)returned a non-zero code: 3.*this is why") as failed,
    ):
        env.execute("true")
    assert "in the step" not in str(failed.value)
    assert built_of(engine, folder) == []


def test_an_interrupt_stops_a_build(folder, engine, nap):
    with (folder / "Dockerfile").open("a") as file:
        file.write(f"RUN sleep {nap}\n")

    def running() -> bool:
        containers = engine.containers.list(ignore_removed=True)
        return any(nap in str(container.attrs["Config"]["Cmd"]) for container in containers)

    with create_environment("docker", build=str(folder)) as env:
        stopper = threading.Thread(target=lambda: wait_until(running) and env.interrupt())
        stopper.start()
        with pytest.raises(StartStoppedError, match="interrupted"):
            env.execute_oneshot("true")
        stopper.join()
        assert wait_until(lambda: not running())
    assert built_of(engine, folder) == []

"""Images that are built from a Dockerfile, and kept by what they are made of."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from targets.engines import MINIMAL_IMAGE

from environments import create_environment
from environments.docker.image import BUILT

pytestmark = pytest.mark.alone("builds")


@pytest.fixture
def folder(tmp_path: Path, engine: docker.DockerClient) -> Iterator[Path]:
    """A build's context that nobody else has. What is built of it is removed in the end."""
    place = tmp_path / "context"
    place.mkdir()
    (place / "Dockerfile").write_text(f"FROM {MINIMAL_IMAGE}\nCOPY . /made\nRUN echo in the step\n")
    (place / "file").write_text(secrets.token_hex(8))
    (place / ".dockerignore").write_text("# not these\n*.secret\n")
    (place / "key.secret").write_text("1")
    yield place
    for image in built_of(engine, place):
        engine.images.remove(image.id, force=True)


def built_of(engine: docker.DockerClient, folder: Path) -> list:
    return engine.images.list(filters={"label": f"{BUILT}={folder}"})


def test_a_folder_is_built_once_and_told_line_by_line(folder, engine, monkeypatch):
    monkeypatch.chdir(folder.parent)
    told = []
    for setting in ("context", folder / "Dockerfile"):
        with create_environment(
            "docker", build=setting, on_progress=lambda progress: told.append(progress.what)
        ) as env:
            assert env.execute("ls /made").output == "Dockerfile\nfile\n"
    (image,) = built_of(engine, folder)
    assert image.tags[0].startswith("hermes-build:")
    assert told.count("building context: in the step") == 1

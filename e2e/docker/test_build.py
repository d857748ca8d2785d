"""Images built from a Dockerfile, and reused while the build context is the same."""

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
    """Make a build context with unique content; remove its images at the end."""
    place = tmp_path / "context"
    place.mkdir()
    (place / "Dockerfile").write_text(f"FROM {MINIMAL_IMAGE}\nCOPY . /made\nRUN echo in the step\n")
    (place / "file").write_text(secrets.token_hex(8))
    (place / ".dockerignore").write_text("# not these\n*.secret\n")
    (place / "key.secret").write_text("1")
    yield place
    for image in images_built_from(engine, place):
        engine.images.remove(image.id, force=True)


def images_built_from(engine: docker.DockerClient, folder: Path) -> list:
    return engine.images.list(filters={"label": f"{BUILT}={folder}"})


def test_a_folder_is_built_once_with_progress_line_by_line(folder, engine, monkeypatch):
    monkeypatch.chdir(folder.parent)
    reported = []
    for setting in ("context", folder / "Dockerfile"):
        with create_environment(
            "docker", build=setting, on_progress=lambda progress: reported.append(progress.what)
        ) as env:
            assert env.execute("ls /made").output == "Dockerfile\nfile\n"
    (image,) = images_built_from(engine, folder)
    assert image.tags[0].startswith("hermes-build:")
    assert reported.count("building context: in the step") == 1

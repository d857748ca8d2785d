from __future__ import annotations

import contextlib
import logging

import docker
import pytest
from targets.engines import MINIMAL_IMAGE
from targets.image_registry import registry_with

from environments import EnvironmentStartError, TerminalError
from environments.progress import Progress


def test_a_missing_image_is_pulled_with_progress_in_the_log_or_named(docker_environment, engine, caplog, monkeypatch):
    monkeypatch.setattr("environments.docker.image.PROGRESS_INTERVAL", 0)
    caplog.set_level(logging.INFO, "environments.docker.image")
    small = _changed_image(engine)
    with registry_with(engine, small) as name:
        with pytest.raises(EnvironmentStartError, match=f"{name}:other.*TERMINAL_DOCKER_IMAGE"):
            docker_environment(image=f"{name}:other").execute("true")
        caplog.clear()
        engine.images.remove(small, force=True)
        reported: list[Progress] = []
        env = docker_environment(image=name, on_progress=reported.append)
        try:
            assert env.execute("cat /made").output == "here\n"
            env.cleanup()
        finally:
            with contextlib.suppress(docker.errors.ImageNotFound):
                engine.images.remove(name, force=True)
        first, *_, last = [record.getMessage() for record in caplog.records]
        assert first == f"pulling image {name}" and last == f"pulled image {name}"
        (done, total), *_ = [(each.done, each.total) for each in reversed(reported) if "pulling" in each.what]
        assert done and total and 3_000_000 < done <= total
        assert any("MB so far" in record.getMessage() for record in caplog.records)


def _changed_image(engine: docker.DockerClient) -> str:
    """Make an image with a layer of its own: once the image is removed, a pull has to fetch the layer."""
    make = "echo here >/made; head -c 3000000 /dev/urandom >/random"
    container = engine.containers.create(MINIMAL_IMAGE, ["sh", "-c", make])
    container.start()
    container.wait()
    image = container.commit("e2e-changed", "latest")
    container.remove()
    return str(image.tags[0])


def test_an_image_without_a_shell_is_named_as_such(docker_environment, engine):
    container = engine.containers.create(MINIMAL_IMAGE, ["rm", "/usr/bin/sh", "/usr/bin/dash"])
    container.start()
    container.wait()
    image = container.commit("e2e-without-shell", "latest")
    container.remove()
    try:
        with pytest.raises(TerminalError, match="e2e-without-shell has no /bin/sh"):
            docker_environment(image="e2e-without-shell").execute("true")
    finally:
        engine.images.remove(image.id, force=True)

"""Starts that an engine or a host refuses: Python prints a single error that fits on a screen."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.engines import PYTHON_IMAGE, require_bubblewrap, require_docker, require_singularity
from targets.podman_service import podman_service
from targets.printed_errors import refusal
from targets.singularity_engine import SingularityEngine, engine_in
from targets.ssh_server import SSHServer, free_port, make_key

from environments import Pool, create_environment
from hermes_env.aio import AsyncEnvironment


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SingularityEngine:
    monkeypatch.setenv("APPTAINER_NOHTTPS", "1")
    return engine_in(require_singularity(), tmp_path, monkeypatch)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SSHServer]:
    server = SSHServer(tmp_path)
    server.start()
    yield server
    server.remove()


def start(backend: str, **settings: object) -> None:
    with create_environment(backend, **settings) as env:
        env.execute("true")


def wrong_refusals(backend: str, rows: dict[str, dict[str, object]]) -> dict[str, str]:
    """Return the messages that lack the expected words."""
    found = {words: refusal(lambda given=given: start(backend, **given)) for words, given in rows.items()}
    return {words: message for words, message in found.items() if words not in message}


def test_docker_refuses_in_one_error() -> None:
    require_docker()
    nowhere = f"localhost:{free_port()}/of/mine:1"
    rows: dict[str, dict[str, object]] = {
        "has no image no-such-image:1": {"image": "no-such-image:1"},
        f"has no image {nowhere}": {"image": nowhere},
        "repository name must be lowercase": {"image": "No-Such-Image:1"},
        "nosuch": {"image": PYTHON_IMAGE, "extra_args": ["--runtime=nosuch"]},
        "no-such-network": {"image": PYTHON_IMAGE, "extra_args": ["--network=no-such-network"]},
        "container_memory": {"image": PYTHON_IMAGE, "container_memory": "lots"},
    }
    assert wrong_refusals("docker", rows) == {}


def test_an_engine_that_cannot_be_used_is_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "no-socket").touch()
    for address in (
        f"unix://{tmp_path}/missing.sock",
        f"unix://{tmp_path}/no-socket",
        f"tcp://127.0.0.1:{free_port()}",
        "tcp://nowhere.invalid:2375",
        f"ssh://nobody@127.0.0.1:{free_port()}",
        "nonsense://here",
    ):
        monkeypatch.setenv("DOCKER_HOST", address)
        assert "backend '" in refusal(lambda: start("docker", image=PYTHON_IMAGE)), address


def test_podman_refuses_in_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with podman_service() as service:
        monkeypatch.setenv("DOCKER_HOST", service.url)
        off = {} if service.holds_limits else dict.fromkeys(("container_cpu", "container_memory", "container_pids"), 0)
        image = f"localhost:{free_port()}/of/mine:1"
        assert f"has no image {image}" in refusal(lambda: start("docker", image=image, **off))


def test_a_pool_and_an_awaited_environment_refuse_in_one_error() -> None:
    require_docker()

    def leased() -> None:
        with Pool({"backend": "docker", "image": "no-such-image:1"}) as pool, pool.environment():
            pass

    async def awaited() -> None:
        async with AsyncEnvironment("docker", image="no-such-image:1") as env:
            await env.execute("true")

    for act in (leased, lambda: asyncio.run(awaited())):
        assert "has no image no-such-image:1" in refusal(act)


def test_singularity_refuses_in_one_error(engine: SingularityEngine) -> None:
    rows = {
        "there is no image /nowhere.sif": "/nowhere.sif",
        "cannot pull docker://localhost": f"docker://localhost:{free_port()}/of/mine:1",
        "/etc/hostname": "/etc/hostname",
    }
    for words, image in rows.items():
        assert words in refusal(lambda image=image: engine.make(image=image).execute("true"))


def test_ssh_refuses_in_one_error(server: SSHServer, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("remember the milk")
    reached = server.settings
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        rows: dict[str, dict[str, object]] = {
            "nothing listens there": {**reached, "port": silent.getsockname()[1]},
            "there is no host of that name": {**reached, "host": "nowhere.invalid"},
            "there is no file": {**reached, "key": str(tmp_path / "missing")},
            "is no private key": {**reached, "key": str(tmp_path / "notes")},
            "refused the login": {**reached, "key": str(make_key(tmp_path / "other"))},
        }
        assert wrong_refusals("ssh", rows) == {}


def test_bubblewrap_refuses_in_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require_bubblewrap()
    assert "nowhere" in refusal(lambda: start("bubblewrap", cwd="/nowhere"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is no `bwrap` on PATH" in refusal(lambda: start("bubblewrap"))


def test_a_wrong_setting_is_one_error() -> None:
    assert "locl" in refusal(lambda: create_environment("locl"))
    assert "imge" in refusal(lambda: create_environment("docker", imge="x"))
    assert "timeout" in refusal(lambda: create_environment("local", timeout="soon"))
    assert "cannot be written" in refusal(lambda: start("local", record="/nowhere/record.jsonl"))

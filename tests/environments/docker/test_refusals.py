"""Docker settings that are refused before any request to the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from environments import SettingsError, UnsupportedError, create_environment, load_settings
from environments.docker import DockerEnvironment
from environments.docker.image import Build
from environments.legacy import DEFAULT_LIMITS


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")


def test_settings_of_a_new_container_are_refused_for_a_container_to_join():
    with pytest.raises(SettingsError, match=r"image, network, container_persistent are for a new target"):
        create_environment("docker", container="web", image="x", network=False, container_persistent=True)
    with pytest.raises(UnsupportedError, match="container_memory, container_pids"):
        create_environment("docker", container="web", container_memory=64, container_pids=9)
    with pytest.raises(SettingsError, match="one container"):
        create_environment("docker", container="one two")
    with pytest.raises(SettingsError, match="create_environment"):
        DockerEnvironment(load_settings("docker", container="one"))


def test_default_limits_of_hermes_agent_are_ignored_for_a_container_to_join(configure):
    limits = "".join(f"  {name}: {value}\n" for name, value in DEFAULT_LIMITS.items())
    configure(f"terminal:\n  docker_container: web\n{limits}")
    with create_environment("docker") as env:
        assert [getattr(env.settings, name) for name in DEFAULT_LIMITS] == [None, None, None]


def test_a_container_in_an_argument_overrides_configured_settings_of_new_containers(configure, monkeypatch):
    configure("terminal:\n  docker_image: x\n  container_persistent: true\n  container_memory: 99\n")
    monkeypatch.setenv("TERMINAL_DOCKER_NETWORK", "false")
    with create_environment("docker", container="one") as env:
        settings = env.settings
    assert (settings.docker.image, settings.docker.network) == (None, "full")
    assert (settings.container_persistent, settings.container_memory) == (False, None)
    monkeypatch.setenv("TERMINAL_DOCKER_CONTAINER", "web")
    assert load_settings("docker").docker.container == "web"
    assert load_settings("docker", image="y").docker.container is None
    monkeypatch.setenv("TERMINAL_DOCKER_IMAGE", "z")
    with pytest.raises(SettingsError, match="image, network are for a new target"):
        load_settings("docker").own.check(load_settings("docker"))


def test_an_invalid_build_is_refused_and_the_tag_follows_the_context(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM x\nCOPY . /made\n")
    (tmp_path / ".dockerignore").write_text("# not these\n*.secret\n")
    (tmp_path / "file").write_text("1")
    with pytest.raises(SettingsError, match="contradict each other"):
        create_environment("docker", build=str(tmp_path), image="x")
    with pytest.raises(SettingsError, match=r"there is no .*/none/Dockerfile"):
        create_environment("docker", build=str(tmp_path / "none"))

    def tag() -> str:
        build = Build.of(str(tmp_path))
        return build.tag(build.files())

    before = tag()
    (tmp_path / "key.secret").write_text("2")
    assert tag() == before
    (tmp_path / "file").chmod(0o755)
    assert tag() != before


def test_an_invalid_port_is_refused():
    with create_environment("docker", container="no-such-one") as env:
        for port in (0, 65536):
            with pytest.raises(ValueError, match="from 1 to 65535"):
                env.address(port)
        with pytest.raises(TypeError, match="whole number"):
            env.address("80")  # type: ignore[arg-type]

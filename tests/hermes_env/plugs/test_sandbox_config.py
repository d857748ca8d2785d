"""The configuration of a sandbox: settings, the name of a file, or a backend's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from environments import SettingsError
from hermes_env.plugs.sandbox_config import HermesSandboxConfig, check, sandboxes_of


def test_a_configuration_is_settings_a_files_name_or_a_backends(tmp_path: Path) -> None:
    given = HermesSandboxConfig(backend="docker", image="x", volumes=["/a:/b"])
    assert sandboxes_of(given) == {
        "default": {"backend": "docker", "command": None, "image": "x", "volumes": ["/a:/b"]}
    }
    assert hash(given) == hash(HermesSandboxConfig(**given.model_dump()))
    path = tmp_path / "sandbox.yaml"
    path.write_text("backend: ssh\nhost: h\ncommand: serve\n")
    assert sandboxes_of(str(path)) == {"default": {"backend": "ssh", "command": "serve", "host": "h"}}
    path.write_text("# nothing is set\n")
    assert sandboxes_of(str(path)) == sandboxes_of(None) == {"default": {"backend": None, "command": None}}
    assert sandboxes_of("docker") == sandboxes_of("/task/docker") == {"default": {"backend": "docker", "command": None}}
    with pytest.raises(FileNotFoundError):
        sandboxes_of(str(tmp_path / "other.yaml"))
    with pytest.raises(TypeError, match="is a int; give a HermesSandboxConfig"):
        sandboxes_of(3)


def test_sandboxes_have_settings_of_their_own_over_those_of_all() -> None:
    given = HermesSandboxConfig(
        backend="docker", image="x", sandboxes={"default": {}, "base": {"image": "y", "command": ["serve"]}}
    )
    assert sandboxes_of(given) == {
        "default": {"backend": "docker", "command": None, "image": "x"},
        "base": {"backend": "docker", "command": ["serve"], "image": "y"},
    }


@pytest.mark.parametrize("name", ["compose.yaml", "docker-compose.yml", "my-compose.yaml"])
def test_a_compose_file_is_known_by_its_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("services: {box: {image: x, volumes: ['./data:/data']}}")
    assert sandboxes_of(str(path))["box"]["volumes"] == [f"{tmp_path}/data:/data"]


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.gpu", "gpu.Dockerfile"])
def test_a_dockerfile_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(SettingsError, match="images are not built"):
        sandboxes_of(name)


def test_settings_are_checked_before_anything_is_started() -> None:
    check(HermesSandboxConfig(backend="local"))
    with pytest.raises(SettingsError, match="no_such"):
        check(HermesSandboxConfig(backend="local", no_such=1))

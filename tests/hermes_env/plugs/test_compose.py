"""Settings from a `compose.yaml`: keys with a setting, and a refusal by name of all others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from environments import SettingsError, create_environment
from hermes_env.plugs.compose import service

FOLDER = Path("/task")


def read(text: str) -> dict[str, dict[str, object]]:
    return service(yaml.safe_load(text), FOLDER)


def of(lines: str) -> dict[str, object]:
    """Return the settings of a service with an image and these lines."""
    text = "services:\n  default:\n    image: python:3.12\n" + "".join(f"    {line}\n" for line in lines.splitlines())
    return read(text)["default"]


def test_a_service_becomes_the_settings_of_a_container() -> None:
    text = """
version: "3"
name: task
x-common: &common {mem_limit: 0.5gb}
services:
  box:
    <<: *common
    x-default: true
    image: python:3.12
    init: true
    command: tail -f /dev/null
    working_dir: /work
    environment: {LEVEL: 3, PRICE: "5$$", FROM_HERE: null}
    volumes: ["./data:/data:ro"]
    network_mode: none
    cpus: 1.5
    user: 1000
"""
    settings = {
        "backend": "docker",
        "image": "python:3.12",
        "command": None,
        "cwd": "/work",
        "env": {"LEVEL": "3", "PRICE": "5$"},
        "forward_env": ["FROM_HERE"],
        "volumes": ["/task/data:/data:ro"],
        "network": "none",
        "container_memory": 512,
        "container_cpu": 1.5,
        "user": "1000",
    }
    assert read(text) == {"box": settings}
    del settings["command"]
    create_environment(**settings)  # type: ignore[arg-type]  # and they are settings


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("environment: [A=1, B=x=y, C]", {"env": {"A": "1", "B": "x=y"}, "forward_env": ["C"]}),
        ("command: [python3, -m, http.server]", {"command": ["python3", "-m", "http.server"]}),
        ("command: sh -c 'echo it is'", {"command": ["sh", "-c", "echo it is"]}),
        ("command: sleep infinity", {}),
        ("volumes: [{type: bind, source: /a, target: /b, read_only: true}]", {"volumes": ["/a:/b:ro"]}),
        ("volumes: ['../a:/b']", {"volumes": ["/a:/b"]}),
        ("mem_limit: 2g", {"container_memory": 2048}),
        ("mem_limit: 1048577", {"container_memory": 2}),
        ("cpus: '0.5'", {"container_cpu": 0.5}),
        ("network_mode: bridge", {"network": "full"}),
        ("network_mode: null", {}),
        ("user: '1000:1000'", {"user": "1000:1000"}),
    ],
)
def test_each_form_of_a_value_is_understood(line: str, settings: dict[str, object]) -> None:
    assert of(line) == {"backend": "docker", "image": "python:3.12", "command": None, **settings}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("build: .", "'build' is not supported: images are not built"),
        ("ports: ['80:80']", "'ports' is not supported: remove it"),
        ("command: true", "command: True: give text"),
        ("environment: {A: '${HOME}'}", "variables are not supported"),
        ("environment: {A: true}", "put the value into quotation marks"),
        ("environment: A=1", "give a mapping"),
        ("volumes: ['named:/data']", "give a path of this machine"),
        ("volumes: ./data:/data", "give a list"),
        ("volumes: [{type: tmpfs, target: /b}]", "only a mount of type 'bind'"),
        ("volumes: [{type: bind, source: /a, target: /b, bind: {}}]", "'bind' is not supported"),
        ("mem_limit: much", "such as 512m"),
        ("cpus: many", "could not convert"),
        ("network_mode: host", "network_mode: 'host': only these values are supported: none, bridge, default"),
        ("init: false", "init: False: only these"),
        ("image: null", "image is missing"),
    ],
)
def test_a_key_without_a_setting_is_refused_by_name(line: str, why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        of(line)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("services: {a: {image: x}, b: {image: y}}", "should have one service, but has: a, b"),
        ("services: {}", "should have one service"),
        ("image: x", "'image' is not supported"),
        ("services: {a: {image: x}}\nnetworks: {n: {}}", "'networks' is not supported"),
        ("services: {a: null}", "service 'a' should be a mapping, but is a NoneType"),
        ("", "compose.yaml should be a mapping"),
    ],
)
def test_a_file_that_is_no_single_service_is_refused(text: str, why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(text)
    assert why in str(caught.value)


def test_the_configured_backend_is_used_if_it_has_images(configure: Callable[[str], None], tmp_path: Path) -> None:
    configure("terminal: {backend: singularity}")
    found = of("volumes: ['./data:/data']")
    assert found == {
        "backend": "singularity",
        "image": "docker://python:3.12",
        "command": None,
        "binds": ["/task/data:/data"],
    }
    image = tmp_path / "box.sif"
    image.touch()
    assert of(f"image: {image}")["image"] == str(image)
    with pytest.raises(SettingsError, match="service 'default': backend 'singularity' has no 'user'"):
        of("user: root")


def test_a_service_without_volumes_keeps_its_settings(configure: Callable[[str], None]) -> None:
    configure("terminal: {backend: modal}")
    assert of("environment: {A: b}")["env"] == {"A": "b"}
    with pytest.raises(SettingsError, match="backend 'modal' has no 'volumes'"):
        of("volumes: ['./data:/data']")


def test_a_backend_without_images_leaves_it_to_docker(configure: Callable[[str], None]) -> None:
    configure("terminal: {backend: local}")
    assert of("")["backend"] == "docker"

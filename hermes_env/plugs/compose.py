"""Converts a `compose.yaml` with one service to settings, see docs/agents.md."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from environments import SettingsError, load_settings

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([bkmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_NETWORKS = {"none": "none", "bridge": "full", "default": "full"}
_COMMON = {"cwd", "container_cpu", "container_memory"}


def service(compose: object, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the only service of a Compose file by name: `command`, and arguments of `create_environment`.

    The backend is the configured one if it has images, otherwise Docker. Keys with the prefix `x-` (Compose's
    extensions) are ignored.

    Args:
        compose: The content of the file.
        folder: The folder of the file, the base of relative paths in volumes.

    Raises:
        SettingsError: The file has several services, or a key or a value without a setting of the backend.
    """
    services = _keys("compose.yaml", compose, {"services", "version", "name"}).get("services")
    if not isinstance(services, Mapping) or len(services) != 1:
        names = ", ".join(map(str, services)) if isinstance(services, Mapping) else services
        raise SettingsError(
            f"compose.yaml should have one service, but has: {names}; define several sandboxes in a sandbox.yaml"
        )
    (name, wanted), loaded = *services.items(), load_settings()
    if not hasattr(loaded.own, "image"):
        loaded = load_settings("docker")
    about, backend = f"compose.yaml: service {name!r}", loaded.env
    found: dict[str, Any] = {"image": None, "command": None}
    for key, value in _keys(about, wanted, set(_READ)).items():
        try:
            found |= {} if value is None else _READ[key](value, folder)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"{about}: {key}: {value!r}: {error}") from error
    if not found["image"]:
        raise SettingsError(f"{about}: image is missing; name the image of the sandbox")
    if backend == "singularity":
        found |= {"binds": found.pop("volumes")} if "volumes" in found else {}
        found["image"] = found["image"] if _is_there(found["image"]) else f"docker://{found['image']}"
    has = {field.name for field in dataclasses.fields(loaded.own)} | _COMMON | {"command"}
    for setting in found.keys() - (has if backend == "docker" else has - {"volumes"}):
        raise SettingsError(f"{about}: backend {backend!r} has no {setting!r}; remove it, or use another backend")
    return {str(name): {"backend": backend, **found}}


def _is_there(image: str) -> bool:
    return "://" in image or Path(image).exists()


def _keys(about: str, value: object, known: set[str]) -> dict[str, Any]:
    """Return a mapping without extensions. Raises SettingsError for an unknown key."""
    if not isinstance(value, Mapping):
        raise SettingsError(f"{about} should be a mapping, but is a {type(value).__name__}")
    given = {str(key): each for key, each in value.items() if not str(key).startswith("x-")}
    for key in given.keys() - known:
        why = "images are not built; build the image, and name it by 'image'" if key == "build" else "remove it"
        raise SettingsError(f"{about}: {key!r} is not supported: {why}; supported: {', '.join(sorted(known))}")
    return given


def _text(value: object) -> str:
    """Return a value as text, with `$$` replaced by `$` as in Compose. Variables are not supported."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise TypeError("give text, or put the value into quotation marks")
    if "$" in str(value).replace("$$", ""):
        raise ValueError("variables are not supported; write the value, and $$ for a dollar sign")
    return str(value).replace("$$", "$")


def _environment(value: object, _: Path) -> dict[str, Any]:
    if isinstance(value, list):
        lines = [_text(line).partition("=") for line in value]
        pairs = {name: text if sign else None for name, sign, text in lines}
    elif isinstance(value, Mapping):
        pairs = {name: None if text is None else _text(text) for name, text in value.items()}
    else:
        raise TypeError("give a mapping, or a list of NAME=VALUE")
    inherited = [name for name, text in pairs.items() if text is None]
    given = {"env": {name: text for name, text in pairs.items() if text is not None}, "forward_env": inherited}
    return {name: each for name, each in given.items() if each}


def _volume(value: object, folder: Path) -> str:
    if isinstance(value, Mapping):
        mount = _keys("a mount of volumes", value, {"type", "source", "target", "read_only"})
        if mount.get("type") != "bind":
            raise ValueError("only a mount of type 'bind' is supported")
        value = f"{mount.get('source')}:{mount.get('target')}{':ro' if mount.get('read_only') else ''}"
    source, colon, rest = _text(value).partition(":")
    if not colon or not source.startswith(("/", ".", "~")):
        raise ValueError("give a path of this machine, beginning with '/', '.' or '~', and a path of the sandbox")
    return f"{(folder / Path(source).expanduser()).resolve()}:{rest}"


def _volumes(value: object, folder: Path) -> dict[str, Any]:
    if not isinstance(value, list):
        raise TypeError("give a list")
    return {"volumes": [_volume(each, folder) for each in value]}


def _memory(value: object, _: Path) -> dict[str, Any]:
    size = _SIZE.fullmatch(_text(value).strip())
    if size is None:
        raise ValueError("give bytes, or a number with the suffix k, m or g, such as 512m")
    return {"container_memory": -int(-float(size[1]) * _UNITS[size[2].lower()] // 2**20)}  # rounded up to MB


def _choice(values: Mapping[Any, dict[str, Any]]) -> Any:  # noqa: ANN401
    def chosen(value: object, _: Path) -> dict[str, Any]:
        if not isinstance(value, (str, bool)) or value not in values:
            raise ValueError(f"only these values are supported: {', '.join(map(str, values))}")
        return values[value]

    return chosen


def _command(value: object, _: Path) -> dict[str, Any]:
    argv = [_text(word) for word in value] if isinstance(value, list) else shlex.split(_text(value))
    keeps_alive = argv[:1] == ["sleep"] or argv == ["tail", "-f", "/dev/null"]  # unnecessary: a target stays anyway
    return {} if keeps_alive or not argv else {"command": argv}


_READ = {
    "image": lambda value, _: {"image": _text(value)},
    "command": _command,
    "working_dir": lambda value, _: {"cwd": _text(value)},
    "environment": _environment,
    "volumes": _volumes,
    "network_mode": _choice({name: {"network": ours} for name, ours in _NETWORKS.items()}),
    "mem_limit": _memory,
    "cpus": lambda value, _: {"container_cpu": float(_text(value))},
    "user": lambda value, _: {"user": _text(value)},
    "init": _choice({True: {}}),  # every target has an init process
}

"""The configuration of inspect_ai's sandboxes, see docs/agents.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from environments import SettingsError, load_settings
from environments.registry import backend_class
from hermes_env.plugs.compose import service

COMPOSE_FILES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")


class HermesSandboxConfig(BaseModel, extra="allow"):
    """A backend and its settings. All other fields are settings of `create_environment`.

    HermesSandboxConfig(backend="docker", image="python:3.12-slim", container_memory=2048)
    """

    backend: str | None = None
    """A backend's name; None is the configured backend."""
    command: str | list[str] | None = None
    """A background command in each sandbox, from the start to the end of the sample."""
    sandboxes: dict[str, dict[str, Any]] = {"default": {}}
    """The sandboxes of a sample by name, each with settings that override the common ones. The first is the default."""

    def __hash__(self) -> int:
        return hash(self.model_dump_json())


def sandboxes_of(config: object) -> dict[str, dict[str, Any]]:
    """Return the sandboxes of a sample by name: the arguments of `create_environment`, and the `command`.

    Args:
        config: A `HermesSandboxConfig`, or a Compose file as inspect_ai's `ComposeConfig`; the name of a file of either
            kind, with `compose` in the name of a Compose file; a backend's name; or None.

    Raises:
        SettingsError: A Compose file has a key without a setting, or needs an image to be built.
        FileNotFoundError: The file does not exist.
        TypeError: The configuration is of another type.
    """
    if isinstance(config, str):
        path = Path(config)
        if "Dockerfile" in (path.stem, path.suffix.removeprefix(".")):
            raise SettingsError(f"{config}: images are not built; build the image, and name it in a compose.yaml")
        if path.name.endswith(("compose.yaml", "compose.yml")):
            return service(yaml.safe_load(path.read_text("utf-8")), path.parent)
        if path.suffix in (".yaml", ".yml"):
            config = HermesSandboxConfig.model_validate(yaml.safe_load(path.read_text("utf-8")) or {})
        else:
            config = HermesSandboxConfig(backend=path.name)  # inspect_ai prepends a folder to every text
    elif isinstance(config, BaseModel) and hasattr(config, "services"):
        return service(config.model_dump(by_alias=True, exclude_unset=True), Path())
    given = HermesSandboxConfig() if config is None else config
    if not isinstance(given, HermesSandboxConfig):
        raise TypeError(f"the configuration is a {type(config).__name__}; give a HermesSandboxConfig, or a file's name")
    common = {"backend": given.backend, "command": given.command, **(given.model_extra or {})}
    return {name: {**common, **own} for name, own in given.sandboxes.items()}


def check(config: object) -> None:
    """Check the settings of all sandboxes, and probe their backends.

    Raises:
        EnvironmentStartError: A backend cannot be used here.
        SettingsError: A setting is wrong; or as `sandboxes_of`, with its other errors.
    """
    for settings in sandboxes_of(config).values():
        loaded = load_settings(**{name: value for name, value in settings.items() if name != "command"})
        backend_class(loaded.env).probe(loaded)

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
    """A backend and its settings. All that is not named here is a setting of `create_environment`, by the same name.

    HermesSandboxConfig(backend="docker", image="python:3.12-slim", container_memory=2048)
    """

    backend: str | None = None
    """A backend's name; None is the one that is configured."""
    command: str | list[str] | None = None
    """A command that runs in the background of each sandbox, from the start of the sample to its end."""
    sandboxes: dict[str, dict[str, Any]] = {"default": {}}
    """The sandboxes of a sample by name: the settings of each, over those of all. The first is the default."""

    def __hash__(self) -> int:
        return hash(self.model_dump_json())


def sandboxes_of(config: object) -> dict[str, dict[str, Any]]:
    """Return the sandboxes of a sample by name: for each the arguments of `create_environment`, and its `command`.

    Args:
        config: A `HermesSandboxConfig`, the content of a Compose file as inspect_ai's `ComposeConfig`, or the name of a
            file of either kind, that of a Compose file with `compose` in it; a backend's name; or None.

    Raises:
        SettingsError: A Compose file has no counterpart in settings, or an image would have to be built.
        FileNotFoundError: There is no such file.
        TypeError: It is of another type.
    """
    if isinstance(config, str):
        path = Path(config)
        if "Dockerfile" in (path.stem, path.suffix.removeprefix(".")):
            raise SettingsError(f"{config}: no image is built for a sandbox; build it, and name it in a compose.yaml")
        if path.name.endswith(("compose.yaml", "compose.yml")):
            return service(yaml.safe_load(path.read_text("utf-8")), path.parent)
        if path.suffix in (".yaml", ".yml"):
            config = HermesSandboxConfig.model_validate(yaml.safe_load(path.read_text("utf-8")) or {})
        else:
            config = HermesSandboxConfig(backend=path.name)  # inspect_ai puts a folder before all that it is given
    elif isinstance(config, BaseModel) and hasattr(config, "services"):
        return service(config.model_dump(by_alias=True, exclude_unset=True), Path())
    given = HermesSandboxConfig() if config is None else config
    if not isinstance(given, HermesSandboxConfig):
        raise TypeError(f"the configuration is a {type(config).__name__}; give a HermesSandboxConfig, or a file's name")
    common = {"backend": given.backend, "command": given.command, **(given.model_extra or {})}
    return {name: {**common, **own} for name, own in given.sandboxes.items()}


def check(config: object) -> None:
    """Check the settings of all sandboxes, and look for whatever their backends need.

    Raises:
        EnvironmentStartError: A backend cannot be used here.
        SettingsError: As `sandboxes_of` does, and its other errors; or a setting is wrong.
    """
    for settings in sandboxes_of(config).values():
        loaded = load_settings(**{name: value for name, value in settings.items() if name != "command"})
        backend_class(loaded.env).probe(loaded)

"""`config.yaml` in `HERMES_HOME`, section by section."""

from __future__ import annotations

import os
from pathlib import Path

from environments.errors import SettingsError
from environments.validation import Given

CONFIG_FILE = "config.yaml"


def hermes_home() -> Path:
    """Return the directory of the user's settings: `HERMES_HOME`, or `~/.hermes` when unset or empty."""
    return Path(os.environ.get("HERMES_HOME") or "~/.hermes").expanduser()


def read_config_section(name: str) -> tuple[dict[str, object], Path]:
    """Read one section of `config.yaml`. The other sections are left alone: they belong to others.

    Args:
        name: The section's key at the top of the file.

    Returns:
        The section, empty when it or the file is missing, and the path of the file.

    Raises:
        SettingsError: The file cannot be read, is not YAML, or it or the section is not a mapping.
    """
    path = hermes_home() / CONFIG_FILE
    document = _read_mapping(path)
    section = document.get(name)
    if section is None:
        return {}, path
    return _string_keys(section, f"{path}, {name}"), path


def config_layer(section: str) -> dict[str, Given]:
    """Return a section of `config.yaml` as a layer for `validated`. Raises as `read_config_section`."""
    values, path = read_config_section(section)
    return {key: Given(value, f"{path}, {section}.{key}") for key, value in values.items()}


def _read_mapping(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}") from None
    import yaml

    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: is not valid YAML{_yaml_place(error)}") from None
    return {} if document is None else _string_keys(document, str(path))


def _yaml_place(error: Exception) -> str:
    """Say where and why. PyYAML's own message quotes the line, and that may hold a secret."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None)
    place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"{place}: {problem}" if problem else place


def _string_keys(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise SettingsError(f"{where}: it should be a mapping of names to values, not a {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            raise SettingsError(f"{where}: the key {key!r} should be text; write it in quotes")
    return value

"""`config.yaml` in `HERMES_HOME`, section by section."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from environments.errors import SettingsError

if TYPE_CHECKING:
    from environments.yaml_document import Document

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
    text = _read(path)
    section = _document(text, path).value(name) if text.strip() else None
    if section is None:
        return {}, path
    return _string_keys(section, f"{path}, {name}"), path


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}") from None


@lru_cache(maxsize=1)  # each section is asked for apart, and reading a long file takes 50 ms
def _document(text: str, path: Path) -> Document:
    from environments.yaml_document import read_mapping

    return read_mapping(text, str(path))


def _string_keys(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise SettingsError(f"{where}: it should be a mapping of names to values, not a {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            raise SettingsError(f"{where}: the key {str(key)[:100]} should be text; write it in quotes")
    return value

"""`config.yaml` in `HERMES_HOME`, section by section."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from environments.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from environments.yaml_document import Document

CONFIG_FILE = "config.yaml"


def hermes_home() -> Path:
    """Return the directory of the user's settings: `HERMES_HOME`, or `~/.hermes` when unset or empty."""
    from pathlib import Path  # which takes its time to import, and most have no such file

    return Path(_home()).expanduser()


def _home() -> str:
    return os.environ.get("HERMES_HOME") or "~/.hermes"


def _path() -> str:
    # As text: most have no such file, and need no `pathlib` for it.
    return os.path.join(os.path.expanduser(_home()), CONFIG_FILE)  # noqa: PTH111, PTH118


def is_config_empty() -> bool:
    """Whether there is no `config.yaml`, or nothing in it. Raises SettingsError if it cannot be read."""
    return not _read(_path()).strip()


def read_config_section(name: str) -> tuple[dict[str, object], str]:
    """Read one section of `config.yaml`. The other sections are left alone: they belong to others.

    Args:
        name: The section's key at the top of the file.

    Returns:
        The section, empty when it or the file is missing, and the path of the file.

    Raises:
        SettingsError: The file cannot be read, is not YAML, or it or the section is not a mapping.
    """
    path = _path()
    text = _read(path)
    section = _document(text, path).value(name) if text.strip() else None
    if section is None:
        return {}, path
    return _string_keys(section, f"{path}, {name}"), path


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}") from None


@lru_cache(maxsize=1)  # each section is asked for apart, and reading a long file takes 50 ms
def _document(text: str, path: str) -> Document:
    from environments.yaml_document import read_mapping

    return read_mapping(text, path)


def _string_keys(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise SettingsError(f"{where}: it should be a mapping of names to values, not a {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            raise SettingsError(f"{where}: the key {str(key)[:100]} should be text; write it in quotes")
    return value

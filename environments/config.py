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
SECTIONS = ("approvals", "code_execution", "security", "terminal", "web")
"""The sections that this package reads. The file is shared with other programs, which have others."""
_CLOSE = 0.85
"""As difflib measures likeness: `terminl` is a slip (0.93), `terminal_ui` another program's section (0.84)."""


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
        SettingsError: The file cannot be read, is not YAML, it or the section is not a mapping, or the name of a
            section is nearly one of ours: passed over, a misspelt `terminal` would run commands on this machine.
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

    document = read_mapping(text, path)
    for name in document.names():
        if name not in SECTIONS and (near := _near_section(name)):
            raise SettingsError(
                f"{path}: no such section {name[:100]!r} (did you mean {near!r}?); sections of other programs are left "
                f"alone, but for those whose names are as near to one of ours: {', '.join(SECTIONS)}"
            )
    return document


def _near_section(name: str) -> str | None:
    from difflib import get_close_matches

    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    return next(iter(get_close_matches(plain, SECTIONS, n=1, cutoff=_CLOSE)), None)


def _string_keys(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise SettingsError(f"{where}: it should be a mapping of names to values, not a {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            raise SettingsError(f"{where}: the key {str(key)[:100]} should be text; write it in quotes")
    return value

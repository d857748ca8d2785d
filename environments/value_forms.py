"""How lists and mappings may be written in variables and in `config.yaml`."""

from __future__ import annotations

from collections.abc import Mapping

from environments.errors import SettingsError
from environments.validation import Given


def from_variable(given: Given, default: object) -> Given:
    """Read the JSON of a variable that is a list or a mapping.

    Args:
        given: What the variable holds.
        default: The setting's default, which tells what it is.

    Raises:
        SettingsError: It is something else.
    """
    if given.value is None or not isinstance(default, tuple | Mapping):
        return given
    import json

    try:
        value = json.loads(str(given.value))
    except (ValueError, RecursionError):
        example = '["a", "b"]' if isinstance(default, tuple) else '{"NAME": "value"}'
        raise SettingsError(f"{given.where}: it should be JSON, such as {example}") from None
    return Given(_with_texts(value, default), given.where)


def from_file(given: Given, default: object) -> Given:
    """Read a list or a mapping of `config.yaml`, which may be written there as in a variable. Arguments as above.

    Raises:
        SettingsError: It begins as JSON does, and is none.
    """
    if isinstance(given.value, str) and given.value.lstrip().startswith(("[", "{")):
        return from_variable(given, default)
    return Given(_with_texts(given.value, default), given.where)


def _with_texts(value: object, default: object) -> object:
    """Take the numbers and truth values of a mapping as texts: as what they are as variables."""
    if not isinstance(default, Mapping) or not isinstance(value, Mapping):
        return value
    return {key: str(entry) if isinstance(entry, bool | int | float) else entry for key, entry in value.items()}

"""`config.yaml`, and how a value from any source is checked against a settings class.

A settings class is a frozen dataclass. It is not a pydantic model, because pydantic takes 100 ms to import
and a run on the defaults has nothing to check. pydantic is imported with the first value that somebody set.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from environments.base import SettingsError

if TYPE_CHECKING:
    import pydantic
    from _typeshed import DataclassInstance

    SettingsClass = TypeVar("SettingsClass", bound=DataclassInstance)

CONFIG_FILE = "config.yaml"
NOT_A_SETTING: Mapping[str, bool] = {"computed": True}
"""`field(metadata=...)` of a field that is filled in by code and that no source may set."""


@dataclass(frozen=True, slots=True)
class Given:
    """One value that somebody set. Its repr leaves the value out, which may be a secret."""

    value: object
    where: str
    """The source and the key as the user wrote them, such as `variable TERMINAL_TIMEOUT`."""

    def __repr__(self) -> str:
        return f"Given({self.where})"


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


def setting_names(model: type[DataclassInstance]) -> list[str]:
    """Return the names that a source may set in a settings class."""
    return [field.name for field in fields(model) if not field.metadata.get("computed")]


def validated(model: type[SettingsClass], *layers: Mapping[str, Given]) -> SettingsClass:
    """Build a settings object from layers of values, the later over the earlier, and check every one of them.

    A value of None is taken as not set. Text is turned into numbers and truth values (true, yes, on, 1, and
    their opposites) where the field asks for them.

    Args:
        model: A dataclass whose annotations pydantic understands.
        layers: Values by field name, lowest first.

    Raises:
        SettingsError: A name is unknown, or a value is not allowed; also when a later layer replaces it.
    """
    names = setting_names(model)
    values: dict[str, object] = {}
    for layer in layers:
        for name, given in layer.items():
            if name not in names:
                raise SettingsError(
                    f"{given.where}: no such setting{closest(name, names)}; allowed: {', '.join(names)}"
                )
            if given.value is not None:
                values[name] = _checked(model, name, given)
    return model(**values)


def closest(name: str, allowed: Iterable[str], cutoff: float = 0.6) -> str:
    """Return ` (did you mean 'x'?)` for the nearest allowed name, or nothing when none is near.

    Args:
        name: What was written.
        allowed: What could have been meant.
        cutoff: How alike the two must be at least, from 0 to 1.
    """
    from difflib import get_close_matches

    near = get_close_matches(name, list(allowed), n=1, cutoff=cutoff)
    return f" (did you mean {near[0]!r}?)" if near else ""


@cache
def _types(model: type[DataclassInstance]) -> dict[str, Any]:
    import pydantic

    # What a settings class names in its annotations, and imports only for the type checker.
    names = ("Field", "NonNegativeFloat", "NonNegativeInt", "PositiveFloat", "PositiveInt", "SecretStr")
    lazily_imported = {name: getattr(pydantic, name) for name in names}
    return get_type_hints(model, localns=lazily_imported, include_extras=True)


def _checked(model: type[DataclassInstance], name: str, given: Given) -> object:
    import pydantic

    if given.value == "":
        raise SettingsError(f"{given.where}: it is empty; give a value, or leave it out to get the default")
    adapter: pydantic.TypeAdapter[object] = pydantic.TypeAdapter(_types(model)[name])
    try:
        # Strict for a truth value only: pydantic would otherwise take `true` for the number 1.
        return adapter.validate_python(given.value, strict=isinstance(given.value, bool) or None)
    except pydantic.ValidationError as error:
        raise SettingsError(f"{given.where}: {_explained(error)}") from None


def _explained(error: pydantic.ValidationError) -> str:
    """Say what is allowed, without the value, which may be a secret."""
    first = error.errors(include_input=False, include_context=False, include_url=False)[0]
    place = "".join(f"[{part!r}]" for part in first["loc"])
    message = first["msg"].replace("valid tuple", "list").replace("valid dictionary", "mapping")
    message = message.replace("Input should", "it should").replace("valid boolean", "truth value (true or false)")
    return f"{place} {message}".strip()


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

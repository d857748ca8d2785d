"""How a value that somebody set is checked against the type of a settings class.

A settings class is a frozen dataclass. It is not a pydantic model, because pydantic takes 100 ms to import
and a run on the defaults has nothing to check. pydantic is imported with the first value that somebody set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_type_hints

from environments.errors import SettingsError

if TYPE_CHECKING:
    import pydantic
    from _typeshed import DataclassInstance

    SettingsClass = TypeVar("SettingsClass", bound=DataclassInstance)


class Given(NamedTuple):
    """One value that somebody set. Its repr leaves the value out, which may be a secret."""

    value: object
    where: str
    """The source and the key as the user wrote them, such as `variable TERMINAL_TIMEOUT`."""

    def __repr__(self) -> str:
        return f"Given({self.where})"


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
    if "should match pattern" in message and "(/|~/" in message:
        message = "it should be a path from the root (/...) or from the home directory (~/...)"
    return f"{place} {message}".strip()


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

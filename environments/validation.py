"""Validation of settings: values by the type of their field, names by similarity to the known names.

A settings class is a frozen dataclass instead of a pydantic model: importing pydantic takes 100 ms, and a run on
defaults validates no value. pydantic is imported with the first value set.
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

SLIP = 0.85
"""Similarity by difflib from which a name counts as a misspelling: `terminl` and `terminal` have 0.93, `terminal_ui`
and `terminal` 0.84."""
NEAR = 0.65
"""Similarity from which an unknown name is refused, among names expected to be ours."""


class Given(NamedTuple):
    """A value from a source. The repr leaves out the value, possibly a secret."""

    value: object
    where: str
    """Source and key as written by the user, such as `variable TERMINAL_TIMEOUT`."""

    def __repr__(self) -> str:
        return f"Given({self.where})"


Layer = dict[str, Given]
"""The values of one source, by name."""


def setting_names(model: type[DataclassInstance]) -> list[str]:
    """Return the names that a source may set in a settings class."""
    return [field.name for field in fields(model) if not field.metadata.get("computed")]


def validated(model: type[SettingsClass], *layers: Mapping[str, Given]) -> SettingsClass:
    """Validate all values of some layers, later layers overriding earlier ones, and build a settings object.

    None means unset. Text is converted to a number or a boolean (true, yes, on, 1, and their opposites) by the field's
    type.

    Args:
        model: A dataclass with annotations for pydantic.
        layers: Values by field name, lowest priority first.

    Raises:
        SettingsError: A name is unknown, or a value is not allowed, even if overridden by a later layer.
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


def nearest(name: str, allowed: Iterable[str], cutoff: float) -> str | None:
    """Return the most similar allowed name; None below the similarity `cutoff`, from 0 to 1."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(allowed), n=1, cutoff=cutoff)), None)


def closest(name: str, allowed: Iterable[str], cutoff: float = 0.6) -> str:
    """Return ` (did you mean 'x'?)` for the most similar allowed name, or empty text. Arguments: see `nearest`."""
    near = nearest(name, allowed, cutoff)
    return f" (did you mean {near!r}?)" if near else ""


@cache
def _types(model: type[DataclassInstance]) -> dict[str, Any]:
    import pydantic

    # Names in the annotations of settings classes, imported there for the type checker only.
    names = ("Field", "NonNegativeFloat", "NonNegativeInt", "PositiveFloat", "PositiveInt", "SecretStr")
    lazily_imported = {name: getattr(pydantic, name) for name in names}
    return get_type_hints(model, localns=lazily_imported, include_extras=True)


def _checked(model: type[DataclassInstance], name: str, given: Given) -> object:
    import pydantic

    if given.value == "":
        raise SettingsError(f"{given.where}: it is empty; give a value, or leave it out to get the default")
    adapter: pydantic.TypeAdapter[object] = pydantic.TypeAdapter(_types(model)[name])
    try:
        # Strict for booleans only: pydantic would convert `true` to the number 1.
        return adapter.validate_python(given.value, strict=isinstance(given.value, bool) or None)
    except pydantic.ValidationError as error:
        raise SettingsError(f"{given.where}: {_explained(error)}") from None


_KINDS = {
    "bool": "true or false",
    "dict": "a mapping of names to values",
    "finite": "a finite number",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "mapping": "a mapping of names to values",
    "string": "text",
    "tuple": "a list",
}
"""The allowed kind of value, by the first word of pydantic's error type, such as `int_parsing`."""


def _explained(error: pydantic.ValidationError) -> str:
    """Describe the allowed values, without the given value, possibly a secret."""
    first = error.errors(include_input=False, include_context=False, include_url=False)[0]
    place = "".join(f"[{part!r}]" for part in first["loc"])
    message = first["msg"].replace("Input should", "it should")
    if first["type"] == "string_pattern_mismatch" and "(/|~/" in message:
        message = "it should be a path from the root (/...) or from the home directory (~/...)"
    elif kind := _KINDS.get(first["type"].partition("_")[0]):
        message = f"it should be {kind}"
    return f"{place} {message}".strip()


def from_variable(given: Given, default: object) -> Given:
    """Parse the JSON of a variable for a list or a mapping.

    Args:
        given: Text of the variable.
        default: The setting's default; its type selects list, mapping or plain text.

    Raises:
        SettingsError: The text is not JSON.
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
    """Parse a list or mapping of `config.yaml`, possibly JSON. Arguments and errors: see `from_variable`."""
    if isinstance(given.value, str) and given.value.lstrip().startswith(("[", "{")):
        return from_variable(given, default)
    return Given(_with_texts(given.value, default), given.where)


def _with_texts(value: object, default: object) -> object:
    """Convert numbers and booleans in a mapping to text, for variables of a target."""
    if not isinstance(default, Mapping) or not isinstance(value, Mapping):
        return value
    return {key: str(entry) if isinstance(entry, bool | int | float) else entry for key, entry in value.items()}

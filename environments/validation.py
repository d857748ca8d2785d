"""Checks of settings: each value against the type of its field, each name against the names that there are.

A settings class is a frozen dataclass and no pydantic model: pydantic takes 100 ms to import, and a run on the defaults
has nothing to check. It is imported with the first value that was set.
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
"""Likeness, as difflib measures it, from which on one name is the other misspelt: `terminl` and `terminal` have 0.93,
`terminal_ui` and `terminal` 0.84."""
NEAR = 0.65
"""Likeness of a name to ours from which on it is refused, where only names of ours are expected."""


class Given(NamedTuple):
    """A value that was set. Its repr leaves the value out, which may be a secret."""

    value: object
    where: str
    """The source and the key as the user wrote them, such as `variable TERMINAL_TIMEOUT`."""

    def __repr__(self) -> str:
        return f"Given({self.where})"


Layer = dict[str, Given]
"""The values of one source, by name."""


def setting_names(model: type[DataclassInstance]) -> list[str]:
    """Return the names that a source may set in a settings class."""
    return [field.name for field in fields(model) if not field.metadata.get("computed")]


def validated(model: type[SettingsClass], *layers: Mapping[str, Given]) -> SettingsClass:
    """Check every value of some layers, the later over the earlier, and build a settings object.

    A value of None is not set. Text becomes a number or a truth value (true, yes, on, 1, and their opposites) where the
    field is one.

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


def nearest(name: str, allowed: Iterable[str], cutoff: float) -> str | None:
    """Return the allowed name that is most like another; None when all are less like it than `cutoff`, from 0 to 1."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(allowed), n=1, cutoff=cutoff)), None)


def closest(name: str, allowed: Iterable[str], cutoff: float = 0.6) -> str:
    """Return ` (did you mean 'x'?)` for the nearest allowed name, or nothing when none is near. Arguments as above."""
    near = nearest(name, allowed, cutoff)
    return f" (did you mean {near!r}?)" if near else ""


@cache
def _types(model: type[DataclassInstance]) -> dict[str, Any]:
    import pydantic

    # The names in the annotations of settings classes, which are imported there for the type checker alone.
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
"""The allowed kind of value, by the first word of pydantic's name of an error, such as `int_parsing`."""


def _explained(error: pydantic.ValidationError) -> str:
    """Say what is allowed, without the value, which may be a secret."""
    first = error.errors(include_input=False, include_context=False, include_url=False)[0]
    place = "".join(f"[{part!r}]" for part in first["loc"])
    message = first["msg"].replace("Input should", "it should")
    if first["type"] == "string_pattern_mismatch" and "(/|~/" in message:
        message = "it should be a path from the root (/...) or from the home directory (~/...)"
    elif kind := _KINDS.get(first["type"].partition("_")[0]):
        message = f"it should be {kind}"
    return f"{place} {message}".strip()


def from_variable(given: Given, default: object) -> Given:
    """Read the JSON of a variable that is a list or a mapping.

    Args:
        given: The text of the variable.
        default: The setting's default, which tells a list, a mapping and other settings apart.

    Raises:
        SettingsError: The text is no JSON.
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
    """Read a list or a mapping of `config.yaml`, which may be JSON as in a variable. Arguments and errors as above."""
    if isinstance(given.value, str) and given.value.lstrip().startswith(("[", "{")):
        return from_variable(given, default)
    return Given(_with_texts(given.value, default), given.where)


def _with_texts(value: object, default: object) -> object:
    """Turn numbers and truth values of a mapping into texts, as variables of a target are."""
    if not isinstance(default, Mapping) or not isinstance(value, Mapping):
        return value
    return {key: str(entry) if isinstance(entry, bool | int | float) else entry for key, entry in value.items()}

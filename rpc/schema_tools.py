"""Tools made from function-calling schemas, with a single handler for all calls."""

from __future__ import annotations

import inspect
import json
import keyword
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self
from unicodedata import normalize

from rpc.messages import refuse_constant
from rpc.signatures import Described, Verbatim
from rpc.stub import check_name

Handle = Callable[[str, dict[str, object]], object]
"""Receives a tool's name and the arguments by name. The result may be an awaitable."""


def tools_from_schemas(
    schemas: Iterable[object], handle: Handle, *, decode_json: bool = True
) -> dict[str, Callable[..., object]]:
    """Make tools for a script from function-calling schemas and their handler.

    Each tool gets a signature and a docstring from the schema: first the required properties in their order, then the
    others with the schema's defaults. A property without a default is sent only if given. A property that can't be a
    parameter name is passed as `**{"its-name": ...}`, as are extra ones that `additionalProperties` allows. Text from
    `handle` that is JSON arrives decoded in the script, even `"123"` and `"null"`; other text stays text.

    Args:
        schemas: Each in OpenAI's form, `{"type": "function", "function": {"name", "description", "parameters"}}`, in
            Anthropic's, `{"name", "description", "input_schema"}`, or `{"name", "description", "parameters"}`.
        handle: Called as `handle(name, arguments)` for each call, from several threads at the same time; may be an
            `async def`. The name is the schema's, the arguments are a dict of the given ones.
        decode_json: True to decode JSON text; False leaves all text as text.

    Returns:
        Tools by name, for `tools=` of `execute_code`. Characters not allowed in a Python name become `_`:
        `get-weather` is `get_weather`.

    Raises:
        ValueError: A schema is invalid, or has a name not usable in a script.
        TypeError: `handle` can't be called.
    """
    if not callable(handle):
        raise TypeError(f"handle is of type {type(handle).__name__}; give a function of name and arguments")
    tools: dict[str, Callable[..., object]] = {}
    for number, schema in enumerate(schemas, 1):
        described = ToolSchema.read(schema, f"schema {number}")
        name = described.python_name
        check_name(name)
        if name in tools:
            raise ValueError(f"schema {number}, {described.name!r}, makes a tool {name!r}, and so does one before it")
        tools[name] = _tool(described, handle, _decoded if decode_json else _as_it_is)
    return tools


def _tool(schema: ToolSchema, handle: Handle, decode: Callable[[object], object]) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        answer = handle(schema.name, schema.arguments(*args, **kwargs))
        return _decoded_later(answer, decode) if inspect.isawaitable(answer) else decode(answer)

    call.__name__ = call.__qualname__ = schema.python_name
    call.__doc__ = schema.documentation or None
    call.__dict__["__signature__"] = schema.signature
    call.__dict__["__described__"] = Described(schema.arguments, handle)
    return call


async def _decoded_later(answer: Awaitable[object], decode: Callable[[object], object]) -> object:
    return decode(await answer)


def _as_it_is(answer: object) -> object:
    return answer


def _decoded(answer: object) -> object:
    if not isinstance(answer, str):
        return answer
    try:
        return json.loads(answer, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return answer


NOT_GIVEN = Verbatim("...")
"""Default of a property that is sent only if given."""
FORMS = "give {name, description, parameters}, also within {type: function, function: ...}, or with input_schema"
_TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}

_Schema = Mapping[str, object]


@dataclass(frozen=True)
class ToolSchema:
    """A parsed function-calling schema."""

    name: str
    """Name in the schema."""
    description: str
    properties: Mapping[str, _Schema]
    required: frozenset[str]
    takes_others: bool
    """True if `additionalProperties` allows extra arguments."""

    @classmethod
    def read(cls, schema: object, where: str) -> Self:
        """Parse a schema in OpenAI's form, in Anthropic's, or bare.

        Args:
            schema: The schema.
            where: Name of the schema in errors.

        Raises:
            ValueError: The schema is invalid, or does not fit a Python function.
        """
        outer = _checked_mapping(schema, where)
        if outer.get("type", "function") not in ("function", "custom"):
            raise ValueError(f"{where} is of type {outer['type']!r} and not of a function; {FORMS}")
        inner = _checked_mapping(outer["function"], f"the function of {where}") if "function" in outer else outer
        name = inner.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"{where} has no name; {FORMS}")
        where += f", {name!r}"
        given = [inner[key] for key in ("parameters", "input_schema") if inner.get(key) is not None]
        parameters = _checked_mapping(given[0] if given else {}, f"'parameters' of {where}")
        if parameters.get("type", "object") != "object":
            raise ValueError(f"{where} takes a {parameters['type']!r}; its parameters have to be of type 'object'")
        properties = {
            key: {} if each is True else _checked_mapping(each, f"the property {key!r} of {where}")
            for key, each in _checked_mapping(parameters.get("properties") or {}, f"the properties of {where}").items()
        }
        return cls(
            name,
            _text(inner.get("description"), where),
            properties,
            _required(parameters.get("required"), properties, where),
            parameters.get("additionalProperties") not in (None, False),
        )

    @property
    def python_name(self) -> str:
        """Name in a script: characters not allowed in a Python name become `_`."""
        return re.sub(r"\W", "_", self.name)

    @cached_property
    def odd_names(self) -> frozenset[str]:
        """Properties that can't be parameter names and are passed as `**{"their name": ...}`."""
        return frozenset(name for name in self.properties if not _is_parameter_name(name))

    @cached_property
    def _keywords(self) -> str:
        name = "more"
        while name in self.properties:
            name += "_"
        return name

    @cached_property
    def signature(self) -> inspect.Signature:
        """The required properties in their order, then the optional ones with their defaults."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        named = [name for name in self.properties if name not in self.odd_names]
        first = [name for name in named if name in self.required]
        later = [name for name in named if name not in self.required]
        defaults = {name: self.properties[name].get("default", NOT_GIVEN) for name in later}
        parameters = [
            inspect.Parameter(
                name, kind, default=defaults.get(name, inspect.Parameter.empty), annotation=_type(self.properties[name])
            )
            for name in first + later
        ]
        if self.odd_names or self.takes_others:
            parameters.append(inspect.Parameter(self._keywords, inspect.Parameter.VAR_KEYWORD))
        return inspect.Signature(parameters)

    @property
    def documentation(self) -> str:
        """Docstring made of the descriptions."""
        lines = [line for name in self.properties if (line := self._line(name))]
        return "\n".join([self.description, "", "Args:", *lines] if lines else [self.description]).strip()

    def _line(self, name: str) -> str:
        schema = self.properties[name]
        parts = [" ".join(str(schema.get("description", "")).split())]
        if isinstance(allowed := schema.get("enum"), list):
            parts.append(f"One of {', '.join(map(repr, allowed))}.")
        if name in self.odd_names:
            parts.append(f"Pass it as **{{{name!r}: ...}}; {'required' if name in self.required else 'optional'}.")
        said = " ".join(part for part in parts if part)
        return f"    {name}: {said}" if said else ""

    def arguments(self, /, *args: object, **kwargs: object) -> dict[str, object]:
        """Return a call's arguments by property name, with defaults for missing ones.

        Raises:
            TypeError: A required argument is missing, or a name is not among the properties.
        """
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        others = bound.arguments.pop(self._keywords, {})
        if not self.takes_others and (unknown := sorted(others.keys() - self.odd_names)):
            raise TypeError(f"got an unexpected keyword argument {unknown[0]!r}")
        if missing := sorted((self.required & self.odd_names) - others.keys()):
            raise TypeError(f"missing a required argument: {missing[0]!r}")
        named = {name: value for name, value in bound.arguments.items() if value is not NOT_GIVEN}
        return {**named, **others}


def _is_parameter_name(name: str) -> bool:
    # Python normalizes identifiers to this form, so another name would arrive.
    return name.isidentifier() and not keyword.iskeyword(name) and normalize("NFKC", name) == name


def _checked_mapping(value: object, what: str) -> _Schema:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{what} is of type {type(value).__name__} and no mapping of names; {FORMS}")
    return value


def _text(value: object, where: str) -> str:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"the description of {where} is of type {type(value).__name__} and no text")
    return inspect.cleandoc(value or "")


def _required(names: object, properties: Mapping[str, _Schema], where: str) -> frozenset[str]:
    if names is None:
        return frozenset()
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"'required' of {where} is not a list of names")
    if unknown := [name for name in names if name not in properties]:
        raise ValueError(f"{where} requires {unknown[0]!r}, which is not among its properties")
    return frozenset(names)


def _type(schema: _Schema) -> object:
    """Return a property's type as an annotation, as far as Python can express the type."""
    found = _type_text(schema)
    return inspect.Parameter.empty if found is None else found


def _type_text(schema: object) -> str | None:
    if not isinstance(schema, Mapping):
        return None
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(alternatives, list):
        texts = [_type_text(each) for each in alternatives]
    else:
        kinds = schema.get("type")
        texts = [_one_type(kind, schema) for kind in (kinds if isinstance(kinds, list) else [kinds])]
    known = [text for text in texts if text is not None]
    return " | ".join(dict.fromkeys(known)) if known and len(known) == len(texts) else None


def _one_type(kind: object, schema: _Schema) -> str | None:
    items = _type_text(schema.get("items")) if kind == "array" else None
    if items is not None:
        return f"list[{items}]"
    return _TYPES.get(kind) if isinstance(kind, str) else None

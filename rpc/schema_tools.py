"""Tools that schemas describe and one function runs, whatever their names."""

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

from rpc.signatures import Described, Verbatim
from rpc.stub import check_name

Handle = Callable[[str, dict[str, object]], object]
"""Takes a tool's name and its arguments by their names. What it returns may have to be awaited."""


def tools_from_schemas(
    schemas: Iterable[object], handle: Handle, *, decode_json: bool = True
) -> dict[str, Callable[..., object]]:
    """Make tools for a script of function-calling schemas and the function that runs such calls.

    Each tool has a signature and a docstring made of its schema: first what is required, in the order of the
    properties, then the rest, with the schema's defaults; what has none is not sent when it is not given. A property
    that can't be the name of a parameter is passed as `**{"its-name": ...}`, and so are others that
    `additionalProperties` allows. What `handle` returns as text that is JSON arrives in the script as what it says,
    `"123"` and `"null"` too; other text stays text.

    Args:
        schemas: Each in OpenAI's form, `{"type": "function", "function": {"name", "description", "parameters"}}`, in
            Anthropic's, `{"name", "description", "input_schema"}`, or `{"name", "description", "parameters"}`.
        handle: Called as `handle(name, arguments)` for each call, at the same time from several threads; it may be an
            `async def`. The name is the schema's, the arguments are a dict of what was given.
        decode_json: Whether text that is JSON arrives as what it says; if not, all text stays text.

    Returns:
        The tools, to be given as `tools=` to `execute_code`, by their names. A name has `_` in the script for whatever
        can't stand in a Python name: `get-weather` is `get_weather`.

    Raises:
        ValueError: A schema is not in order, or no script could call it by its name.
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
        return json.loads(answer, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return answer


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


NOT_GIVEN = Verbatim("...")
"""The default of what is not sent when it is not given."""
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
    """One tool, as its schema describes it."""

    name: str
    """As the schema has it."""
    description: str
    properties: Mapping[str, _Schema]
    required: frozenset[str]
    takes_others: bool
    """Whether `additionalProperties` allows others by name."""

    @classmethod
    def read(cls, schema: object, where: str) -> Self:
        """Read a schema in OpenAI's form, in Anthropic's, or bare.

        Args:
            schema: What to read.
            where: What to call it in an error.

        Raises:
            ValueError: It is none, or says what no function can be made of.
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
        parameters = _checked_mapping(given[0] if given else {}, f"what {where} takes")
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
        """Its name in a script: with `_` for whatever can't stand in a Python name."""
        return re.sub(r"\W", "_", self.name)

    @cached_property
    def odd_names(self) -> frozenset[str]:
        """The properties that can't be parameters, and are passed as `**{"their name": ...}`."""
        return frozenset(name for name in self.properties if not _is_parameter_name(name))

    @cached_property
    def _keywords(self) -> str:
        name = "more"
        while name in self.properties:
            name += "_"
        return name

    @cached_property
    def signature(self) -> inspect.Signature:
        """What is required in the order of the properties, and behind it what is not, with its defaults."""
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
        """A docstring of the descriptions."""
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
        """Return what a call passes, by the names of the properties. What has a default and is not given has that.

        Raises:
            TypeError: Something is missing, or is not among the properties.
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
    # Python reads identifiers in this normal form, in which another name would arrive.
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
        raise ValueError(f"what {where} requires is no list of names")
    if unknown := [name for name in names if name not in properties]:
        raise ValueError(f"{where} requires {unknown[0]!r}, which is not among its properties")
    return frozenset(names)


def _type(schema: _Schema) -> object:
    """Return a property's type as an annotation, as far as Python can say it."""
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

"""The parameters of a function as a model is told of them, and a model's arguments as the function takes them."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast, get_type_hints

from environments.validation import closest
from rpc.signatures import ToolSignature, Verbatim

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Schema = dict[str, object]

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NULL = {"type": "null"}


class ArgumentError(Exception):
    """A model's arguments are not what the tool takes. The message is for the model."""


@dataclass(frozen=True, slots=True)
class _Parameter:
    adapter: TypeAdapter[object]
    is_required: bool
    default: object
    description: str | None

    def value(self, given: object) -> object:
        """Return an argument in the type that the function wants, as far as that is plain.

        Raises:
            pydantic.ValidationError: It is not.
        """
        from pydantic import ValidationError

        try:
            return self.adapter.validate_python(given)
        except ValidationError:
            if not isinstance(given, str):
                raise
            # Models write a list as the JSON text of one, or its only item without the list.
            with contextlib.suppress(ValidationError):
                if given.lstrip()[:1] in ("[", "{"):
                    return self.adapter.validate_json(given)
                return self.adapter.validate_python([given])
            raise


class Parameters:
    """What a function takes by name."""

    def __init__(self, parameters: Mapping[str, _Parameter], takes_others: bool) -> None:
        self._parameters = parameters
        self._takes_others = takes_others

    @classmethod
    def of(
        cls,
        tool: Callable[..., object],
        descriptions: Mapping[str, str] | None = None,
        only: Collection[str] | None = None,
    ) -> Parameters:
        """Find out what a function takes.

        Args:
            tool: One of our tools without its environment, or any Python function.
            descriptions: A text for each parameter. Without one, what its `Annotated[...]` type says.
            only: The parameters that a model may give; None is all of them.

        Raises:
            ValueError: A model can't call it: it has no signature, takes arguments by place alone, or has a type that
                JSON has no words for.
        """
        known = ToolSignature.of(tool)
        if known.parameters is None:
            raise ValueError("it has no signature that Python can tell")
        kinds = {parameter.kind for parameter in known.parameters.parameters.values()}
        if inspect.Parameter.POSITIONAL_ONLY in kinds:
            raise ValueError("it takes arguments by place alone, and a model gives its arguments by name")
        given = {
            name: parameter
            for name, parameter in known.parameters.parameters.items()
            if parameter.kind in _BY_NAME and (only is None or name in only)
        }
        types = _types(tool, given)
        found = {}
        for name, parameter in given.items():
            is_required = parameter.default is parameter.empty
            is_told = not (is_required or name in known.hidden or isinstance(parameter.default, Verbatim))
            default = parameter.default if is_told else None
            text = (descriptions or {}).get(name)
            found[name] = _Parameter(_adapter(name, types.get(name, object)), is_required, default, text)
        return cls(found, only is None and inspect.Parameter.VAR_KEYWORD in kinds)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def schema(self) -> Schema:
        """Return the JSON schema of an object that has the arguments.

        Raises:
            ValueError: A type has no JSON schema.
        """
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        adapters = [(name, "validation", parameter.adapter) for name, parameter in self._parameters.items()]
        try:
            schemas, definitions = TypeAdapter.json_schemas(adapters)  # type: ignore[arg-type]  # of pairs in a list
        except PydanticUserError as error:
            raise ValueError(f"a type has no JSON schema: {error.message}") from error
        properties = {
            name: _described(schemas[name, "validation"], parameter) for name, parameter in self._parameters.items()
        }
        required = [name for name, parameter in self._parameters.items() if parameter.is_required]
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": self._takes_others,
            **definitions,
        }

    def checked(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return a model's arguments in the types that the function wants; what was not given is left out.

        Text is taken for the number or truth value that it says, and null for an argument that was not given, where
        the function takes no null.

        Raises:
            ArgumentError: Some are missing, unknown or of another type; it names them all.
        """
        from pydantic import ValidationError

        values: dict[str, object] = {}
        problems = [f"{name!r} is missing" for name in self._missing(arguments)]
        for name, given in arguments.items():
            parameter = self._parameters.get(name)
            if parameter is None and self._takes_others:
                values[name] = given
            elif parameter is None:
                shown = str(name)[:100]
                problems.append(f"there is no {shown!r}{closest(shown, self._parameters)}")
            else:
                try:
                    values[name] = parameter.value(given)
                    if isinstance(given, bool) and type(values[name]) in (int, float):
                        problems.append(f"{name}: Input should be a number, not a truth value")
                except ValidationError as error:
                    if given is not None or parameter.is_required:
                        problems += [f"{name}: {problem}" for problem in _problems(error)]
        if problems:
            raise ArgumentError(f"wrong arguments: {'; '.join(problems)}")
        return values

    def _missing(self, arguments: Mapping[str, object]) -> list[str]:
        return [name for name, parameter in self._parameters.items() if parameter.is_required and name not in arguments]


def _types(tool: Callable[..., object], parameters: Mapping[str, inspect.Parameter]) -> dict[str, object]:
    """Return the types of those parameters that have any, written as text or not."""
    written = {name: given.annotation for name, given in parameters.items() if given.annotation is not given.empty}
    holder = SimpleNamespace(__annotations__=written)
    try:
        return get_type_hints(holder, globalns=_names_known_to(tool), include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ValueError(f"its annotations can't be read: {error}") from error


def _names_known_to(tool: Callable[..., object]) -> dict[str, object]:
    """Return the names of the module that a function was written in."""
    # A tool that was bound to an environment is written in another module than its wrapper.
    tool = getattr(tool, "__presents__", tool)
    while isinstance(tool, functools.partial):
        tool = tool.func
    tool = inspect.unwrap(tool)
    if not inspect.isroutine(tool):
        tool = type(tool).__call__
    found = getattr(getattr(tool, "__func__", tool), "__globals__", {})
    return cast("dict[str, object]", found)


def _adapter(name: str, kind: object) -> TypeAdapter[object]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(cast("type[object]", kind))
    except PydanticUserError as error:
        raise ValueError(f"a model can't give {name!r}, which is of type {kind}: {error.message}") from error


def _described(schema: Schema, parameter: _Parameter) -> Schema:
    """Return the schema of a parameter with its text and default. One that is None by default is simply left out."""
    from pydantic_core import to_jsonable_python

    shown = dict(schema)
    if not parameter.is_required and parameter.default is None:
        shown = _without_null(shown)
    elif not parameter.is_required:
        shown["default"] = to_jsonable_python(parameter.default)
    if parameter.description:
        shown["description"] = parameter.description
    return shown


def _without_null(schema: Schema) -> Schema:
    choices = schema.get("anyOf")
    if not isinstance(choices, list) or _NULL not in choices:
        return schema
    others = [choice for choice in choices if choice != _NULL]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**others[0], **rest} if len(others) == 1 else {"anyOf": others, **rest}


def _problems(error: object) -> Iterator[str]:
    from pydantic import ValidationError

    assert isinstance(error, ValidationError)
    for problem in error.errors(include_url=False, include_context=False, include_input=False)[:5]:
        place = "".join(f"[{part}]" for part in problem["loc"] if isinstance(part, int))
        yield f"{place} {problem['msg']}".strip()

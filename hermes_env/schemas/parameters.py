"""Parameters: the JSON schema of a function, and the validation of a model's arguments."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast, get_type_hints

from environments.validation import closest
from rpc.signatures import ToolSignature, Verbatim, documentation

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

Schema = dict[str, object]

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NULL = {"type": "null"}


class ArgumentError(Exception):
    """A model's arguments do not fit the tool. The message is for the model."""


def described_parameters(tool: Callable[..., object]) -> dict[str, str]:
    """Return the text of each parameter in the section `Args:` of a function's docstring."""
    section = re.search(r"^Args:\n(.*?)(?:\n\n|\Z)", documentation(tool) or "", re.M | re.S)
    found = re.findall(r"^ {4}(\w+): (.*?)(?=\n {4}\w|\Z)", section[1] if section else "", re.M | re.S)
    return {name: " ".join(text.split()) for name, text in found}


@dataclass(frozen=True, slots=True)
class _Parameter:
    adapter: TypeAdapter[object]
    is_required: bool
    default: object
    description: str | None

    def value(self, given: object) -> object:
        """Convert an unambiguous argument to the type of the parameter.

        Raises:
            pydantic.ValidationError: The argument has another type.
        """
        from pydantic import ValidationError

        try:
            return self.adapter.validate_python(given)
        except ValidationError:
            if not isinstance(given, str):
                raise
            # Models write a list as JSON text, or write the only item without the list.
            with contextlib.suppress(ValidationError):
                if given.lstrip()[:1] in ("[", "{"):
                    return self.adapter.validate_json(given)
                return self.adapter.validate_python([given])
            raise

    def shown(self, schema: Schema) -> Schema:
        """Return the schema of the type with description and default; without null if null is the default."""
        from pydantic_core import to_jsonable_python

        if not self.is_required and self.default is not None:
            schema = schema | {"default": to_jsonable_python(self.default)}
        elif not self.is_required and isinstance(choices := schema.get("anyOf"), list) and _NULL in choices:
            others = [choice for choice in choices if choice != _NULL]
            rest = {key: value for key, value in schema.items() if key != "anyOf"}
            schema = {**(others[0] if len(others) == 1 else {"anyOf": others}), **rest}
        return schema | {"description": self.description} if self.description else schema


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a function, given by name."""

    by_name: Mapping[str, _Parameter]
    takes_others: bool

    @classmethod
    def of(cls, tool: Callable[..., object], descriptions: Mapping[str, str] | None = None) -> Parameters:
        """Return the parameters of a function.

        Args:
            tool: A built-in tool without the environment, or any Python function.
            descriptions: A text for each parameter. The default is the text of the `Annotated[...]` type.

        Raises:
            ValueError: A model cannot call the function: no signature, positional-only parameters, or a type that JSON
                cannot express.
        """
        known = ToolSignature.of(tool)
        if known.parameters is None:
            raise ValueError("Python cannot read the function's signature")
        kinds = {parameter.kind for parameter in known.parameters.parameters.values()}
        if inspect.Parameter.POSITIONAL_ONLY in kinds:
            raise ValueError("the function has positional-only parameters, and a model gives arguments by name")
        given = {name: each for name, each in known.parameters.parameters.items() if each.kind in _BY_NAME}
        types = _types(tool, given)
        found = {}
        for name, parameter in given.items():
            is_required = parameter.default is parameter.empty
            is_shown = not (is_required or name in known.hidden or isinstance(parameter.default, Verbatim))
            default = parameter.default if is_shown else None
            adapter = _adapter(name, types.get(name, object))
            found[name] = _Parameter(adapter, is_required, default, (descriptions or {}).get(name))
        return cls(found, inspect.Parameter.VAR_KEYWORD in kinds)

    def schema(self) -> Schema:
        """Return the JSON schema of an object with the arguments.

        Raises:
            ValueError: A type has no JSON schema.
        """
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        adapters = [(name, "validation", parameter.adapter) for name, parameter in self.by_name.items()]
        try:
            schemas, definitions = TypeAdapter.json_schemas(adapters)  # type: ignore[arg-type]  # of pairs in a list
        except PydanticUserError as error:
            raise ValueError(f"a type has no JSON schema: {error.message}") from error
        return {
            "type": "object",
            "properties": {name: each.shown(schemas[name, "validation"]) for name, each in self.by_name.items()},
            "required": [name for name, parameter in self.by_name.items() if parameter.is_required],
            "additionalProperties": self.takes_others,
            **definitions,
        }

    def checked(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Convert a model's arguments to the types of the function. Omitted arguments stay omitted.

        Text stands for the number or boolean spelled by the text. Null stands for an omitted argument if the function
        does not accept null.

        Raises:
            ArgumentError: Arguments are missing, unknown or of another type. The message names all of them.
        """
        from pydantic import ValidationError

        values: dict[str, object] = {}
        missing = [name for name, each in self.by_name.items() if each.is_required and name not in arguments]
        problems = [f"{name!r} is missing" for name in missing]
        for name, given in arguments.items():
            parameter = self.by_name.get(name)
            if parameter is None and self.takes_others:
                values[name] = given
            elif parameter is None:
                shown = str(name)[:100]
                problems.append(f"there is no {shown!r}{closest(shown, self.by_name)}")
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


def _types(tool: Callable[..., object], parameters: Mapping[str, inspect.Parameter]) -> dict[str, object]:
    """Return the types of the annotated parameters, also for annotations written as text."""
    written = {name: given.annotation for name, given in parameters.items() if given.annotation is not given.empty}
    # The wrapper of a tool bound to an environment is in another module than the tool.
    tool = getattr(tool, "__presents__", tool)
    while isinstance(tool, functools.partial):
        tool = tool.func
    tool = inspect.unwrap(tool)
    if not inspect.isroutine(tool):
        tool = type(tool).__call__
    names = getattr(getattr(tool, "__func__", tool), "__globals__", {})
    try:
        return get_type_hints(SimpleNamespace(__annotations__=written), globalns=names, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ValueError(f"its annotations can't be read: {error}") from error


def _adapter(name: str, kind: object) -> TypeAdapter[object]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(cast("type[object]", kind))
    except PydanticUserError as error:
        raise ValueError(f"a model can't give {name!r}, which is of type {kind}: {error.message}") from error


def _problems(error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_url=False, include_context=False, include_input=False)[:5]:
        place = "".join(f"[{part}]" for part in problem["loc"] if isinstance(part, int))
        yield f"{place} {problem['msg']}".strip()

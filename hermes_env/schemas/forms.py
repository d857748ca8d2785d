"""Function-calling schemas of tools, in the forms that the services of models take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, get_args

from code_execution.settings import load_code_execution_settings
from hermes_env.schemas.descriptions import DESCRIPTIONS, OPENAI_LIMIT
from hermes_env.schemas.parameters import Schema
from hermes_env.schemas.script import script_texts
from hermes_env.schemas.toolset import EXECUTE_CODE, Toolset, script_parameters
from rpc.signatures import documentation

Form = Literal["openai", "anthropic"]


def tool_schemas(
    form: Form = "openai",
    *,
    tools: Iterable[str] | None = None,
    own_tools: Mapping[str, Callable[..., object]] | None = None,
) -> list[dict[str, object]]:
    """Return function-calling schemas of the tools, to be given to a model; `handle_function_call` answers its calls.

    Args:
        form: `"openai"` for `{"type": "function", "function": {name, description, parameters}}`, `"anthropic"` for
            `{name, description, input_schema}`.
        tools: Names of our tools that the model is to have, such as `["terminal", "read_file", "execute_code"]`; None
            is all of them.
        own_tools: Functions of yours by name. Their docstrings are the descriptions, their annotations the types; an
            `Annotated[int, Field(description="...")]` describes a parameter. One with the name of a tool of ours takes
            its place. Scripts may call them too.

    Returns:
        A list of schemas. The description of `execute_code`, the last one, names the tools among these that scripts
        may call, and the limits of the settings.

    Raises:
        ValueError: The form is unknown, a name is, or a function of yours is none that a model can call.
        SettingsError: The settings in `code_execution:` are not in order.
    """
    if form not in get_args(Form):
        raise ValueError(f"form is {form!r}; allowed: {', '.join(get_args(Form))}")
    chosen = Toolset.of(tools, own_tools)
    described = {name: _described(chosen, name) for name in chosen.names}
    if form == "anthropic":
        return [
            {"name": name, "description": text, "input_schema": parameters}
            for name, (text, parameters) in described.items()
        ]
    return [
        {"type": "function", "function": {"name": name, "description": _fitting(text), "parameters": parameters}}
        for name, (text, parameters) in described.items()
    ]


def _described(tools: Toolset, name: str) -> tuple[str, Schema]:
    """Return the description of a tool and the JSON schema of its arguments."""
    if name == EXECUTE_CODE:
        text, of_code = script_texts(tools, load_code_execution_settings())
        return text, script_parameters(of_code).schema()
    try:
        parameters = tools.parameters(name).schema()
    except ValueError as error:
        raise ValueError(f"the tool {name!r} can't be given to a model: {error}") from error
    if name in tools.own:
        return documentation(tools.own[name]) or "", parameters
    return DESCRIPTIONS[name].for_model(tools.names), parameters


def _fitting(text: str) -> str:
    """Return a description as OpenAI takes it; those of a program's own functions may be too long."""
    return text if len(text) <= OPENAI_LIMIT else f"{text[: OPENAI_LIMIT - 3]}..."

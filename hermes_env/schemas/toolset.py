"""The tools of a model, and their function-calling schemas in the forms that services of models take."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import hermes_tools
from code_execution.limits import NOT_CALLABLE
from code_execution.mcp.settings import servers_of
from code_execution.settings import CodeExecutionSettings, load_code_execution_settings
from environments.validation import closest
from hermes_env.schemas.descriptions import DESCRIPTIONS, OPENAI_LIMIT, script_texts
from hermes_env.schemas.parameters import Parameters, Schema, described_parameters
from rpc.signatures import documentation

Form = Literal["openai", "anthropic"]
Tool = Callable[..., object]

EXECUTE_CODE = "execute_code"
BUILT_IN = (*DESCRIPTIONS, *([] if sys.platform == "win32" else [EXECUTE_CODE]))
"""The names of our tools. `execute_code` is not available on Windows."""
CODE, SESSION = "code", "session"
"""The parameters of `execute_code` that a model gives; limits and tools are the program's to choose."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""A name that both OpenAI and Anthropic take."""


@dataclass(frozen=True, slots=True)
class Toolset:
    """The tools that a model may call."""

    built_in: tuple[str, ...]
    own: Mapping[str, Tool]

    @classmethod
    def of(cls, tools: Iterable[str] | None, own_tools: Mapping[str, Tool] | None) -> Toolset:
        """Check the tools of a model.

        Args:
            tools: Names of ours; None is all of them.
            own_tools: Functions of the program by name. One with the name of a tool of ours takes its place.

        Raises:
            ValueError: A name is not that of a tool, or not one that a model can be given.
        """
        own = dict(own_tools or {})
        wanted = BUILT_IN if tools is None else tuple(dict.fromkeys(tools))
        for name in wanted:
            if name not in BUILT_IN:
                raise ValueError(
                    f"there is no tool {name!r}{closest(name, BUILT_IN)}; there are: {', '.join(BUILT_IN)}. Give a "
                    "function of your own by own_tools"
                )
        for name in own:
            if name == EXECUTE_CODE or not _NAME.fullmatch(name):
                raise ValueError(
                    f"{name!r} is not a name for a tool of your own: 1 to 64 letters, digits, _ and -, and not "
                    f"{EXECUTE_CODE}"
                )
        return cls(tuple(name for name in wanted if name not in own), own)

    @property
    def names(self) -> tuple[str, ...]:
        """All names in the order of the schemas: scripts last, as they call the others."""
        ours = [name for name in self.built_in if name != EXECUTE_CODE]
        return (*ours, *self.own, *(name for name in self.built_in if name == EXECUTE_CODE))

    @property
    def built_in_for_scripts(self) -> tuple[str, ...]:
        """The names of ours that scripts may call."""
        return tuple(name for name in self.built_in if name in DESCRIPTIONS and DESCRIPTIONS[name].returns)

    @property
    def own_for_scripts(self) -> Mapping[str, Tool]:
        """Those of the program that scripts may call."""
        return {name: tool for name, tool in self.own.items() if name not in NOT_CALLABLE and name.isidentifier()}

    @property
    def has_servers(self) -> bool:
        """True if scripts may call the MCP servers of the settings, too: no tool of ours is left out."""
        return {*BUILT_IN} <= {*self.built_in, *self.own}

    def parameters(self, name: str) -> Parameters:
        """Return the parameters of a tool.

        Raises:
            ValueError: It is a function of the program that a model cannot call.
        """
        return Parameters.of(self.own[name]) if name in self.own else _built_in_parameters(name)

    def described(self, name: str) -> tuple[str, Schema]:
        """Return the description of a tool and the JSON schema of its arguments.

        Raises:
            ValueError: It is a function of the program that a model cannot call.
            SettingsError: The settings in `code_execution:` are wrong.
        """
        if name == EXECUTE_CODE:
            text, of_code = self.script_texts(load_code_execution_settings())
            return text, _script_parameters(of_code).schema()
        try:
            parameters = self.parameters(name).schema()
        except ValueError as error:
            raise ValueError(f"the tool {name!r} can't be given to a model: {error}") from error
        if name in self.own:
            return documentation(self.own[name]) or "", parameters
        known = DESCRIPTIONS[name]
        return " ".join(
            [known.text, *(text for other, text in known.beside.items() if other in self.names)]
        ), parameters

    def script_texts(self, settings: CodeExecutionSettings) -> tuple[str, str]:
        """Return the description of `execute_code` and that of its parameter `code`."""
        servers = [*servers_of(settings.mcp_servers)] if settings.mcp_servers and self.has_servers else []
        return script_texts(self.built_in_for_scripts, self.own_for_scripts, servers, settings)


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
        may call, and the limits of the settings. On Windows `execute_code` is not among them.

    Raises:
        ValueError: The form is unknown, a name is, or a function of yours is none that a model can call.
        SettingsError: The settings in `code_execution:` are wrong.
    """
    if form not in get_args(Form):
        raise ValueError(f"form is {form!r}; allowed: {', '.join(get_args(Form))}")
    chosen = Toolset.of(tools, own_tools)
    described = {name: chosen.described(name) for name in chosen.names}
    if form == "anthropic":
        return [
            {"name": name, "description": text, "input_schema": parameters}
            for name, (text, parameters) in described.items()
        ]
    return [
        {"type": "function", "function": {"name": name, "description": _fitting(text), "parameters": parameters}}
        for name, (text, parameters) in described.items()
    ]


def _fitting(text: str) -> str:
    """Return a description as OpenAI takes it; those of a program's own functions may be too long."""
    return text if len(text) <= OPENAI_LIMIT else f"{text[: OPENAI_LIMIT - 3]}..."


@cache
def _built_in_parameters(name: str) -> Parameters:
    if name == EXECUTE_CODE:
        return _script_parameters("")
    tool = getattr(hermes_tools, name)
    return Parameters.of(tool, described_parameters(tool))


def _script_parameters(of_code: str) -> Parameters:
    """Return the parameters of `execute_code`, with a text for its code."""
    return Parameters.of(_script, {**described_parameters(_script), CODE: of_code})


def _script(code: str, session: bool | str = False) -> None:
    """Stand for `execute_code` as a model calls it; see there.

    Args:
        code: Python source.
        session: Run it in a Python that stays, where variables and imports last from one such script to the next; the
            value of its last expression then comes back as value. true is one Python; a name, such as "plots", is
            another for each.
    """

"""The tools of a model, and their function-calling schemas for OpenAI and Anthropic."""

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
"""The names of the built-in tools. `execute_code` is not available on Windows."""
CODE, SESSION = "code", "session"
"""The parameters of `execute_code` for a model; the program sets limits and tools."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""A name allowed by both OpenAI and Anthropic."""


@dataclass(frozen=True, slots=True)
class Toolset:
    """The tools of a model."""

    built_in: tuple[str, ...]
    own: Mapping[str, Tool]

    @classmethod
    def of(cls, tools: Iterable[str] | None, own_tools: Mapping[str, Tool] | None) -> Toolset:
        """Check the tools of a model.

        Args:
            tools: Names of built-in tools; None is all of them.
            own_tools: Functions of the program by name. These replace built-in tools of the same name.

        Raises:
            ValueError: A tool is unknown, or a name is not allowed.
        """
        own = dict(own_tools or {})
        wanted = BUILT_IN if tools is None else tuple(dict.fromkeys(tools))
        for name in wanted:
            if name not in BUILT_IN:
                raise ValueError(
                    f"there is no tool {name!r}{closest(name, BUILT_IN)}; there are: {', '.join(BUILT_IN)}. Give your "
                    "own functions by own_tools"
                )
        for name in own:
            if name == EXECUTE_CODE or not _NAME.fullmatch(name):
                raise ValueError(
                    f"{name!r} is not allowed as the name of your own tool: use 1 to 64 letters, digits, _ and -, but "
                    f"not {EXECUTE_CODE}"
                )
        return cls(tuple(name for name in wanted if name not in own), own)

    @property
    def names(self) -> tuple[str, ...]:
        """All names in the order of the schemas; `execute_code` is last, because scripts call the others."""
        ours = [name for name in self.built_in if name != EXECUTE_CODE]
        return (*ours, *self.own, *(name for name in self.built_in if name == EXECUTE_CODE))

    @property
    def built_in_for_scripts(self) -> tuple[str, ...]:
        """The names of the built-in tools for scripts."""
        return tuple(name for name in self.built_in if name in DESCRIPTIONS and DESCRIPTIONS[name].returns)

    @property
    def own_for_scripts(self) -> Mapping[str, Tool]:
        """The program's own tools for scripts."""
        return {name: tool for name, tool in self.own.items() if name not in NOT_CALLABLE and name.isidentifier()}

    @property
    def has_servers(self) -> bool:
        """True if scripts may also call the MCP servers of the settings: only with all built-in tools."""
        return {*BUILT_IN} <= {*self.built_in, *self.own}

    def parameters(self, name: str) -> Parameters:
        """Return the parameters of a tool.

        Raises:
            ValueError: A model cannot call this function of the program.
        """
        return Parameters.of(self.own[name]) if name in self.own else _built_in_parameters(name)

    def described(self, name: str) -> tuple[str, Schema]:
        """Return the description of a tool and the JSON schema of its arguments.

        Raises:
            ValueError: A model cannot call this function of the program.
            SettingsError: The settings in `code_execution:` are wrong.
        """
        if name == EXECUTE_CODE:
            text, of_code = self.script_texts(load_code_execution_settings())
            return text, _script_parameters(of_code).schema()
        try:
            parameters = self.parameters(name).schema()
        except ValueError as error:
            raise ValueError(f"a model cannot call the tool {name!r}: {error}") from error
        if name in self.own:
            return documentation(self.own[name]) or "", parameters
        known = DESCRIPTIONS[name]
        return " ".join(
            [known.text, *(text for other, text in known.beside.items() if other in self.names)]
        ), parameters

    def script_texts(self, settings: CodeExecutionSettings) -> tuple[str, str]:
        """Return the descriptions of `execute_code` and of the parameter `code`."""
        servers = [*servers_of(settings.mcp_servers)] if settings.mcp_servers and self.has_servers else []
        return script_texts(self.built_in_for_scripts, self.own_for_scripts, servers, settings)


def tool_schemas(
    form: Form = "openai",
    *,
    tools: Iterable[str] | None = None,
    own_tools: Mapping[str, Callable[..., object]] | None = None,
) -> list[dict[str, object]]:
    """Return function-calling schemas of the tools for a model; `handle_function_call` answers the calls.

    Args:
        form: `"openai"` for `{"type": "function", "function": {name, description, parameters}}`, `"anthropic"` for
            `{name, description, input_schema}`.
        tools: Names of built-in tools for the model, such as `["terminal", "read_file", "execute_code"]`; None is all
            of them.
        own_tools: Your functions by name. Their docstrings are the descriptions, their annotations the types; an
            `Annotated[int, Field(description="...")]` describes a parameter. These replace built-in tools of the same
            name. Scripts may call them too.

    Returns:
        A list of schemas. The last schema is `execute_code`, and describes the tools for scripts and the limits of the
        settings. On Windows `execute_code` is missing.

    Raises:
        ValueError: The form or a name is unknown, or a model cannot call one of your functions.
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
    """Shorten a description to OpenAI's limit; docstrings of the program's own functions may be longer."""
    return text if len(text) <= OPENAI_LIMIT else f"{text[: OPENAI_LIMIT - 3]}..."


@cache
def _built_in_parameters(name: str) -> Parameters:
    if name == EXECUTE_CODE:
        return _script_parameters("")
    tool = getattr(hermes_tools, name)
    return Parameters.of(tool, described_parameters(tool))


def _script_parameters(of_code: str) -> Parameters:
    """Return the parameters of `execute_code`, with a description of `code`."""
    return Parameters.of(_script, {**described_parameters(_script), CODE: of_code})


def _script(code: str, session: bool | str = False) -> None:
    """Declare the parameters of `execute_code` for a model.

    Args:
        code: Python source.
        session: Run it in a Python that stays, where variables and imports last from one such script to the next; the
            value of its last expression then comes back as value. true is one Python; a name, such as "plots", is
            another for each.
    """

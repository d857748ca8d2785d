"""Which tools a model has: ours, by name, and functions of the program."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import hermes_tools
from code_execution.limits import NOT_CALLABLE
from environments.validation import closest
from hermes_env.schemas.descriptions import DESCRIPTIONS
from hermes_env.schemas.parameters import Parameters

Tool = Callable[..., object]

EXECUTE_CODE = "execute_code"
BUILT_IN = (*(name for name in DESCRIPTIONS if hasattr(hermes_tools, name)), EXECUTE_CODE)
"""The names of our tools."""
CODE, SESSION = "code", "session"
"""The parameters of `execute_code` that a model gives; limits and tools are the program's to choose."""
_IN_SESSION = (
    "Run it in a Python that stays, where variables and imports last from one such script to the next; the value of "
    'its last expression then comes back as value. true is one Python; a name, such as "plots", is another for each.'
)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What both OpenAI and Anthropic take."""


@dataclass(frozen=True, slots=True)
class Toolset:
    """The tools that a model may call."""

    built_in: tuple[str, ...]
    own: Mapping[str, Tool]

    @classmethod
    def of(cls, tools: Iterable[str] | None, own_tools: Mapping[str, Tool] | None) -> Toolset:
        """Check what a program wants its model to have.

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
        """All of them, in the order in which a model is told of them: scripts last, as they call the others."""
        ours = [name for name in self.built_in if name != EXECUTE_CODE]
        return (*ours, *self.own, *(name for name in self.built_in if name == EXECUTE_CODE))

    @property
    def built_in_for_scripts(self) -> tuple[str, ...]:
        """Those of ours that scripts may call."""
        return tuple(name for name in self.names if name in self.built_in and is_for_scripts(name))

    @property
    def own_for_scripts(self) -> Mapping[str, Tool]:
        """Those of the program that scripts may call."""
        return {name: tool for name, tool in self.own.items() if name not in NOT_CALLABLE and name.isidentifier()}

    @property
    def has_servers(self) -> bool:
        """Whether scripts may call the MCP servers of the settings, too: if the program has left out none of ours."""
        return {*BUILT_IN} <= {*self.built_in, *self.own}

    def parameters(self, name: str) -> Parameters:
        """Return what a tool takes.

        Raises:
            ValueError: It is a function of the program that a model can't call.
        """
        return Parameters.of(self.own[name]) if name in self.own else _built_in_parameters(name)


def is_for_scripts(name: str) -> bool:
    """Whether a tool of ours is one that scripts may call."""
    return name in DESCRIPTIONS and bool(DESCRIPTIONS[name].in_scripts)


@cache
def _built_in_parameters(name: str) -> Parameters:
    if name == EXECUTE_CODE:
        return script_parameters()
    return Parameters.of(getattr(hermes_tools, name), DESCRIPTIONS[name].parameters)


def script_parameters(description: str = "") -> Parameters:
    """Return what `execute_code` takes from a model, with a text for its code."""
    return Parameters.of(_script, {CODE: description, SESSION: _IN_SESSION})


def _script(code: str, session: bool | str = False) -> None:
    """Stand for `execute_code` as a model calls it; see there."""

"""The calls of one MCP tool: out of a script's thread to the session, and back as what the script gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from code_execution.mcp.results import value_of
from code_execution.mcp.target_files import ResultFiles
from environments.base import BaseEnvironment
from rpc import tools_from_schemas
from rpc.signatures import Described

if TYPE_CHECKING:
    from mcp import Client, ClientSession
    from mcp_types import Tool

    from code_execution.mcp.session_loop import SessionLoop

Function = Callable[..., object]


@dataclass(frozen=True, slots=True)
class McpCall:
    """Calls a tool of a session, from any thread but that of the session's loop."""

    session: ClientSession | Client
    loop: SessionLoop
    tool: Tool
    name: str
    """What it is called here."""
    timeout: float | None
    """Seconds that a call may take; None leaves it to the session."""
    env: BaseEnvironment | None = None
    """To whose target files go."""

    def __call__(self, _name: str, arguments: dict[str, object]) -> object:
        """Call it. What the session raises is raised."""
        call = partial(self.session.call_tool, self.tool.name, arguments, read_timeout_seconds=self.timeout)
        result = self.loop.run(call)
        return value_of(result, self.tool.output_schema, ResultFiles(self.env))

    def function(self) -> Function:
        """Return the tool as a function, with the signature that its schema describes.

        Raises:
            ValueError: The schema is not in order, or no script could call it by its name.
        """
        schema = {"name": self.name, "description": self.tool.description, "parameters": self.tool.input_schema}
        (function,) = tools_from_schemas([schema], self, decode_json=False).values()
        return function


def with_files_in(env: BaseEnvironment, tools: Mapping[str, Function]) -> dict[str, Function]:
    """Return tools of a script, of which those of MCP servers write their files to an environment's target."""
    return {name: _with_files_in(env, tool) for name, tool in tools.items()}


def _with_files_in(env: BaseEnvironment, tool: Function) -> Function:
    described = getattr(tool, "__described__", None)
    is_wrapped = hasattr(tool, "__wrapped__")  # by something of the caller's, which would be lost
    if isinstance(described, Described) and isinstance(described.handle, McpCall) and not is_wrapped:
        return replace(described.handle, env=env).function()
    return tool

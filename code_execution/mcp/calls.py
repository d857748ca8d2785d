"""The calls of one MCP tool: out of a script's thread to the session, and back as what the script gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from code_execution.mcp.results import value_of
from code_execution.mcp.target_files import ResultFiles, environment_of_call
from rpc import tools_from_schemas

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

    def __call__(self, _name: str, arguments: dict[str, object]) -> object:
        """Call it. What the session raises is raised."""
        call = partial(self.session.call_tool, self.tool.name, arguments, read_timeout_seconds=self.timeout)
        result = self.loop.run(call)
        return value_of(result, self.tool.output_schema, ResultFiles(environment_of_call()))

    def function(self) -> Function:
        """Return the tool as a function, with the signature that its schema describes.

        Raises:
            ValueError: The schema is not in order, or no script could call it by its name.
        """
        schema = {"name": self.name, "description": self.tool.description, "parameters": self.tool.input_schema}
        (function,) = tools_from_schemas([schema], self, decode_json=False).values()
        return function

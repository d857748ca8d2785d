"""Tools of MCP servers in a script: of a session that is open already, or of the servers that the settings name."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from environments.extras import missing_library

if TYPE_CHECKING:
    from mcp import Client, ClientSession

    from code_execution.mcp.session import McpTools


def mcp_tools(
    session: ClientSession | Client,
    *,
    prefix: str = "",
    only: Collection[str] | None = None,
    timeout: float | None = None,
) -> McpTools:
    """Return the tools of an open MCP session, to be given as `tools=` to `execute_code`.

    They are listed when `execute_code` asks for them, and called on the session's event loop. As that has to be free,
    `execute_code` runs in another thread: `await anyio.to_thread.run_sync(...)`, or `hermes_env.aio.aexecute_code`.
    To put them together with other tools in async code: `{**await mcp_tools(session), "mine": mine}`. docs/mcp.md
    describes the results.

    Args:
        session: An open `ClientSession` that is initialized, or an open `Client`. This is called in the thread of its
            loop.
        prefix: The beginning of their names in a script.
        only: The names of those that scripts may call, as the server has them; None is all of them.
        timeout: Seconds that one call may take; None leaves it to the session, and to the script's own limit.

    Raises:
        MissingExtraError: The MCP SDK is not installed.
        TypeError: The session is none.
        ValueError: There is no event loop in this thread.

    A look at the mapping raises SettingsError if a tool cannot have its name, TerminalError if the server does not
    answer in time, and ValueError in the thread of the session's loop.
    """
    try:
        from mcp import Client, ClientSession
    except ImportError:
        raise missing_library("mcp_tools", "mcp", "mcp") from None
    from code_execution.mcp.session import McpTools

    if not isinstance(session, ClientSession | Client):
        kind = type(session).__name__
        raise TypeError(f"session is of type {kind}; give an open mcp.ClientSession or mcp.Client")
    return McpTools(session, prefix, only, timeout)

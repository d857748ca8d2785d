"""Tools of MCP servers for scripts: of an open session, or of servers in the settings."""

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
    """Return the tools of an open MCP session, for `tools=` of `execute_code`.

    The tools are listed when `execute_code` asks for them, and called on the session's event loop. The loop has to be
    free, so `execute_code` runs in another thread: `await anyio.to_thread.run_sync(...)`, or
    `hermes_env.aio.aexecute_code`. Combined with other tools in async code: `{**await mcp_tools(session), "mine":
    mine}`. docs/mcp.md describes the results.

    Args:
        session: An open, initialized `ClientSession`, or an open `Client`. Call this function in the thread of the
            session's loop.
        prefix: Prefix of the tools' names in a script.
        only: Names of allowed tools, as on the server; None allows all.
        timeout: Seconds for a call; None leaves the limit to the session and to the script.

    Raises:
        MissingExtraError: The MCP SDK is not installed.
        TypeError: `session` is no MCP session.
        ValueError: This thread has no event loop.

    Access to the mapping raises SettingsError for a tool name not usable in scripts, TerminalError if the server does
    not answer in time, and ValueError in the thread of the session's loop.
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

"""The server's answers, whatever it is reached by."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    ListToolsResult,
    PaginatedRequestParams,
    SetLevelRequestParams,
)

from environments.extras import DISTRIBUTION
from hermes_env.mcp.call import Call
from hermes_env.mcp.catalog import listed_tools
from hermes_env.mcp.offer import Offer
from hermes_env.mcp.served_client import ServedClient
from hermes_env.schemas.calls import no_such_tool

Context = ServerRequestContext[Any, Any]


def build_server(offer: Offer) -> Server[Any]:
    """Return a server of our tools.

    Args:
        offer: What each client gets.

    Raises:
        SettingsError: The settings in `code_execution:`, which a description names, are not in order.
    """
    tools = listed_tools(offer.tools.names)

    async def list_tools(context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in offer.tools.names:
            raise MCPError(INVALID_PARAMS, no_such_tool(params.name, offer.tools))
        return await Call(ServedClient.of(context, offer), context, params.name).answer(params.arguments)

    async def set_level(context: Context, params: SetLevelRequestParams) -> EmptyResult:
        ServedClient.of(context, offer).level = params.level
        return EmptyResult()

    server: Server[Any] = Server(
        "hermes-env",
        version=version(DISTRIBUTION),
        title="Hermes environments",
        instructions=(
            f"These tools work in an environment of this session alone (backend: {offer.place}), which starts with the "
            "first call and goes with the session. Commands, scripts and files are all there, and not where the client "
            "runs; only the web tools work from where the server is."
        ),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    # The constructor's own argument for it warns that the newest protocol has no such request, which is not served.
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
    return server

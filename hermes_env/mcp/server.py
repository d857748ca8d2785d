"""The request handlers of the server, for any transport, and the shutdown by a signal."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import anyio
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequestParams,
    CallToolResult,
    DiscoverResult,
    EmptyResult,
    ErrorData,
    ListToolsResult,
    PaginatedRequestParams,
    SetLevelRequestParams,
    UnsupportedProtocolVersionErrorData,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from environments.extras import DISTRIBUTION
from hermes_env.mcp.capabilities import ServedCapabilities
from hermes_env.mcp.session import Context, McpSession, RunningCall
from hermes_env.mcp.tools import listed_tools
from hermes_env.schemas.calls import no_such_tool

DISCOVER = "server/discover"
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Bytes of the largest accepted message; `write_file` accepts 30 MB."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def build_server(capabilities: ServedCapabilities) -> Server[Any]:
    """Return a server of our tools.

    Args:
        capabilities: The tools and the environment of each client.

    Raises:
        SettingsError: The settings in `code_execution:` are wrong; a tool's description contains them.
    """
    names = capabilities.tools.names
    tools = listed_tools(names)

    async def list_tools(context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in names:
            raise MCPError(INVALID_PARAMS, no_such_tool(params.name, capabilities.tools))
        return await RunningCall(McpSession.of(context, capabilities), context, params.name).result(params.arguments)

    async def set_level(context: Context, params: SetLevelRequestParams) -> EmptyResult:
        McpSession.of(context, capabilities).level = params.level
        return EmptyResult()

    async def without_session(ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer a request of a protocol version without sessions by the supported versions."""
        if ctx.request_id is None or ctx.method == "initialize":
            return await call_next(ctx)
        if ctx.method == DISCOVER:
            return DiscoverResult(
                supported_versions=list(HANDSHAKE_PROTOCOL_VERSIONS),
                capabilities=server.get_capabilities(),
                instructions=server.instructions,
                _meta={SERVER_INFO_META_KEY: server.server_info_stamp},
            )
        meta = (ctx.params or {}).get("_meta")
        requested = meta.get(PROTOCOL_VERSION_META_KEY) if isinstance(meta, Mapping) else None
        if requested is not None:
            raise MCPError.from_error_data(unsupported(str(requested)))
        return await call_next(ctx)

    server: Server[Any] = Server(
        "hermes-env",
        version=version(DISTRIBUTION),
        title="Hermes environments",
        instructions=(
            f"These tools work in an environment of this session alone (backend: {capabilities.place}), which starts "
            "with the first call and goes with the session. Commands, scripts and files are all there, and not where "
            "the client runs; only the web tools work from where the server is."
        ),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    # Not by the constructor: that warns that the newest protocol, which is not served, lacks this request.
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
    server.middleware.append(without_session)
    return server


def unsupported(requested: str) -> ErrorData:
    """Return the error for an unsupported protocol version."""
    known = UnsupportedProtocolVersionErrorData(supported=list(HANDSHAKE_PROTOCOL_VERSIONS), requested=requested)
    message = "This server has sessions, and begins with initialize"
    return ErrorData(code=UNSUPPORTED_PROTOCOL_VERSION, message=message, data=known.model_dump(mode="json"))


@asynccontextmanager
async def ended_by_signals(end: Callable[[], object]) -> AsyncIterator[set[int]]:
    """Handle Ctrl-C, SIGTERM and SIGHUP in the block, also repeated ones, only by a call of a function.

    Yields:
        The received signals.
    """
    # Keep SIGHUP ignored under nohup.
    numbers = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    signals: set[int] = set()
    with anyio.open_signal_receiver(*numbers) as received:

        async def watch() -> None:
            async for number in received:
                signals.add(number)
                end()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            yield signals
            group.cancel_scope.cancel()

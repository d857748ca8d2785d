"""One MCP server that runs for a script: reached, listed, and let go."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client

from code_execution.mcp.calls import Function
from code_execution.mcp.server_log import ServerLog
from code_execution.mcp.server_settings import WHERE, McpServer, with_variables
from code_execution.mcp.session_tools import McpTools, mcp_tools
from code_execution.mcp.target_files import MAX_BYTES
from environments.errors import SettingsError, TerminalError
from environments.log import logger
from environments.plain_number import plain_number
from environments.redaction import SHORTEST

CLOSE_LIMIT = 3.0
"""Seconds that a server behind a URL has to hear that its session is over. One with a command has its own graces."""
CONNECT_LIMIT = 30.0
"""Seconds for a connection to one behind a URL."""
EVENT_BYTES = MAX_BYTES * 4 // 3 + 1_000_000
"""Bytes of one message of such a server: the largest files, as base64, and what is around them."""

_log = logger(__name__)


class RunningServer:
    """Runs in a task of its own: `serve`, until `stop` is called on the same loop.

    Args:
        name: What its tools' names begin with.
        server: Where it is.
    """

    def __init__(self, name: str, server: McpServer) -> None:
        self.ready: Future[Mapping[str, Function]] = Future()
        """Its tools, once it has told them, or why it could not be had."""
        self._name = name
        self._server = server
        self._stopping = anyio.Event()
        self._log = ServerLog()
        self._secrets: list[str] = []

    def stop(self) -> None:
        """End it, gently."""
        self._stopping.set()

    async def serve(self) -> None:
        """Start it, and keep it until it is to stop. Nothing is raised: `ready` has it."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._log.drain)
                await self._serve()
                group.cancel_scope.cancel()
        except Exception as error:
            if self.ready.done():
                _log.debug("MCP server %r did not end as it should: %s", self._name, type(error).__name__)
            else:
                self.ready.set_exception(self._not_started(error))
        finally:
            self._log.close()
            self.ready.cancel()  # where nothing came of it

    async def _serve(self) -> None:
        with anyio.CancelScope(deadline=anyio.current_time() + self._server.timeout) as scope:
            async with self._transport() as transport, Client(transport) as client:
                tools = await self._tools(client)
                scope.deadline = float("inf")
                self.ready.set_result(tools)
                await self._stopping.wait()
                scope.deadline = anyio.current_time() + CLOSE_LIMIT
        if scope.cancelled_caught and not self.ready.done():
            raise TimeoutError(f"it did not answer within {plain_number(self._server.timeout)} s")

    async def _tools(self, client: Client) -> McpTools:
        prefix, only, timeout = f"{self._name}_", self._server.tools, self._server.timeout
        try:
            return await mcp_tools(client, prefix=prefix, only=only, timeout=timeout)
        except SettingsError as error:
            raise SettingsError(f"{WHERE}.{self._name}.tools: {error}") from error

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[Transport]:
        server = self._server
        if server.command:
            cwd = Path(server.cwd).expanduser() if server.cwd else None
            variables = {name: self._given(value, "env") for name, value in server.env.items()}
            arguments = [self._given(value, "args", is_secret="${" in value) for value in server.args]
            command = str(Path(server.command).expanduser())
            parameters = StdioServerParameters(command=command, args=arguments, env=variables, cwd=cwd)
            yield stdio_client(parameters, errlog=self._log.file)
            return
        url = self._given(str(server.url), "url", is_secret=False)
        self._secrets += [urlsplit(url).query, urlsplit(url).password or ""]
        headers = {name: self._given(value, "headers") for name, value in server.headers.items()}
        if server.token_env:
            headers["Authorization"] = "Bearer " + self._given(f"${{{server.token_env}}}", "token_env")
        limits = httpx2.Timeout(CONNECT_LIMIT, read=max(CONNECT_LIMIT, server.timeout))
        async with httpx2.AsyncClient(headers=headers, timeout=limits) as http:
            yield streamable_http_client(url, http_client=http, max_sse_event_size=EVENT_BYTES)

    def _given(self, text: str, key: str, *, is_secret: bool = True) -> str:
        """Return what a setting says, which may name variables, and note it as what no error may hold."""
        value = with_variables(text, f"{WHERE}.{self._name}.{key}")
        if is_secret:
            self._secrets.append(value)
        return value

    def _not_started(self, error: Exception) -> TerminalError:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, SettingsError):
            return error
        why = f"{error}" if isinstance(error, TimeoutError | TerminalError) else f"{type(error).__name__}: {error}"
        if said := self._log.tail():
            why += f"; the end of what it has said on standard error: {said}"
        return TerminalError(f"the MCP server {self._name!r} could not be started: {self._without_secrets(why)}")

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            if len(secret) >= SHORTEST:
                text = text.replace(secret, "[REDACTED]")
        return text

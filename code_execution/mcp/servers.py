"""MCP servers from config.yaml that a script calls: started before the script, side by side, and ended after the
script."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

import anyio
import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client

from code_execution.mcp.results import MAX_BYTES
from code_execution.mcp.session import Function, McpTools
from code_execution.mcp.settings import WHERE, McpServer, with_variables
from code_execution.time_budget import TimeBudget
from environments.errors import SettingsError, TerminalError
from environments.log import logger
from environments.plain_number import plain_number
from environments.redaction import SHORTEST

CLOSE_LIMIT = 3.0
"""Seconds for a server with a URL to end its session. A server with a command has the SDK's graces."""
CONNECT_LIMIT = 30.0
"""Seconds to connect to a server with a URL."""
EVENT_BYTES = MAX_BYTES * 4 // 3 + 1_000_000
"""Limit for a message of such a server: the largest files, as base64, and the text around them."""
TAIL_BYTES = 2_000
"""Bytes kept of the end of a server's standard error."""

_log = logger(__name__)


@contextlib.contextmanager
def running_servers(
    servers: Mapping[str, McpServer], budget: TimeBudget, taken: Collection[str]
) -> Iterator[dict[str, Function]]:
    """Run servers for the block, on a separate event loop, and yield their tools.

    Args:
        servers: Servers by prefix of their tools' names.
        budget: Time limit of the script, which includes the start of servers.
        taken: Names of other tools.

    Raises:
        SettingsError: A tool name is already used, or the settings of a server are invalid.
        TerminalError: A server could not be started, or the script was interrupted.
        OutOfTimeError: The script's time limit was reached first.
    """
    with start_blocking_portal() as portal:
        running = [portal.call(_Server, name, server) for name, server in servers.items()]
        with _served(portal, running):
            found: dict[str, Function] = {}
            for each in running:
                for name, function in budget.wait_for(each.ready).items():
                    if name in found or name in taken:
                        raise SettingsError(
                            f"an MCP server's tool would be {name!r} in the script, and so is another tool; give the "
                            "server another name in config.yaml, or leave the tool out by its tools:"
                        )
                    found[name] = function
            yield found


@contextlib.contextmanager
def _served(portal: BlockingPortal, running: list[_Server]) -> Iterator[None]:
    tasks = [portal.start_task_soon(each.serve) for each in running]
    try:
        yield
    finally:
        for each, task in zip(running, tasks, strict=True):
            if each.ready.done():
                portal.call(each.stopping.set)
            else:
                task.cancel()
        wait(tasks)  # each has its own limit


class _Server:
    """A server that runs for a script. Used on the loop it was created on.

    Args:
        name: Prefix of the tools' names.
        server: Settings of the server.
    """

    def __init__(self, name: str, server: McpServer) -> None:
        self.ready: Future[Mapping[str, Function]] = Future()
        """Tools of the server, or the error of the start."""
        self.stopping = anyio.Event()
        """Set to end a server that is ready."""
        self._name, self._server = name, server
        self._errors = _StandardError()
        self._secrets: list[str] = []

    async def serve(self) -> None:
        """Start the server, and run it until `stopping` is set. Nothing is raised; `ready` has the error of a failed
        start."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._errors.drain)
                await self._serve()
                group.cancel_scope.cancel()
        except Exception as error:
            if self.ready.done():
                _log.debug("MCP server %r did not end as it should: %s", self._name, type(error).__name__)
            else:
                self.ready.set_exception(self._not_started(error))
        finally:
            self._errors.close()
            self.ready.cancel()  # if cancelled before

    async def _serve(self) -> None:
        with anyio.CancelScope(deadline=anyio.current_time() + self._server.timeout) as scope:
            async with self._transport() as transport, Client(transport) as client:
                tools = await self._tools(client)
                scope.deadline = float("inf")
                self.ready.set_result(tools)
                await self.stopping.wait()
                scope.deadline = anyio.current_time() + CLOSE_LIMIT
        if scope.cancelled_caught and not self.ready.done():
            raise TimeoutError(f"it did not answer within {plain_number(self._server.timeout)} s")

    async def _tools(self, client: Client) -> McpTools:
        try:
            return await McpTools(client, f"{self._name}_", self._server.tools, self._server.timeout)
        except SettingsError as error:
            raise SettingsError(f"{WHERE}.{self._name}.tools: {error}") from error

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[Transport]:
        server = self._server
        if server.command:
            cwd = Path(server.cwd).expanduser() if server.cwd else None
            variables = {name: self._resolve(value, "env") for name, value in server.env.items()}
            arguments = [self._resolve(value, "args", is_secret="${" in value) for value in server.args]
            command = str(Path(server.command).expanduser())
            parameters = StdioServerParameters(command=command, args=arguments, env=variables, cwd=cwd)
            yield stdio_client(parameters, errlog=self._errors.file)
            return
        url = self._resolve(str(server.url), "url", is_secret=False)
        self._secrets += [urlsplit(url).query, urlsplit(url).password or ""]
        headers = {name: self._resolve(value, "headers") for name, value in server.headers.items()}
        if server.token_env:
            headers["Authorization"] = "Bearer " + self._resolve(f"${{{server.token_env}}}", "token_env")
        limits = httpx2.Timeout(CONNECT_LIMIT, read=max(CONNECT_LIMIT, server.timeout))
        async with httpx2.AsyncClient(headers=headers, timeout=limits) as http:
            yield streamable_http_client(url, http_client=http, max_sse_event_size=EVENT_BYTES)

    def _resolve(self, text: str, key: str, *, is_secret: bool = True) -> str:
        """Return a setting with variables replaced. Errors of the server's start do not show the value."""
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
        if said := self._errors.tail():
            why += f"; the end of its standard error: {said}"
        return TerminalError(f"the MCP server {self._name!r} could not be started: {self._without_secrets(why)}")

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            if len(secret) >= SHORTEST:
                text = text.replace(secret, "[REDACTED]")
        return text


class _StandardError:
    """Standard error of a server; the end is kept for an error of the start."""

    def __init__(self) -> None:
        self._read_end, write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self.file: TextIO = open(write_end, "w", encoding="utf-8")  # noqa: SIM115 - closed by `close`
        self._tail = b""

    async def drain(self) -> None:
        """Read until cancelled, so that the server never blocks on a full pipe."""
        while True:
            await anyio.wait_readable(self._read_end)
            self._read()

    def tail(self) -> str:
        """Return the end of the output."""
        self._read()
        return self._tail.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Close both ends."""
        self.file.close()
        os.close(self._read_end)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._tail = (self._tail + os.read(self._read_end, 65_536))[-TAIL_BYTES:]

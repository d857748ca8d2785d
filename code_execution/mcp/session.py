"""Tools of an open MCP session as functions, called from a script's threads on the session's event loop."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable, Collection, Generator, Iterator, Mapping
from functools import partial
from typing import Any, Self, TypeVar

import anyio
import anyio.from_thread
from anyio.lowlevel import EventLoopToken, current_token
from mcp import Client, ClientSession
from mcp_types import PaginatedRequestParams, Tool

from code_execution.mcp.results import ResultFiles, environment_of_script, value_of
from environments.cancellation import on_scope_cancel
from environments.errors import CallCancelledError, SettingsError, TerminalError
from environments.plain_number import plain_number
from environments.validation import closest
from rpc import tools_from_schemas

T = TypeVar("T")
Function = Callable[..., object]
MAX_TOOLS = 1_000
"""Limit of tools per server. Each is a function in the script's module."""
LISTING_LIMIT = 60.0
"""Seconds to list the tools."""


class McpTools(Mapping[str, Function]):
    """Tools of a session by name. Listed at the first access, or when awaited."""

    def __init__(
        self, session: ClientSession | Client, prefix: str, only: Collection[str] | None, timeout: float | None
    ) -> None:
        self._session, self._prefix, self._only, self._timeout = session, prefix, only, timeout
        self._loop = SessionLoop()
        self._lock = threading.Lock()
        self._functions: dict[str, Function] | None = None

    def __getitem__(self, name: str) -> Function:
        return self._listed()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed())

    def __len__(self) -> int:
        return len(self._listed())

    def __await__(self) -> Generator[object, None, Self]:
        return self._awaited().__await__()

    async def _awaited(self) -> Self:
        if self._functions is None:
            self._functions = await self._made()
        return self

    def _listed(self) -> dict[str, Function]:
        with self._lock:
            if self._functions is None:
                self._functions = self._loop.run(self._made)
            return self._functions

    async def _made(self) -> dict[str, Function]:
        try:
            with anyio.fail_after(LISTING_LIMIT):
                tools = await _all_tools(self._session)
        except TimeoutError:
            raise TerminalError(
                f"an MCP server did not list its tools within {plain_number(LISTING_LIMIT)} s"
            ) from None
        names = [tool.name for tool in tools]
        if unknown := [name for name in self._only or () if name not in names]:
            raise SettingsError(
                f"the MCP server has no tool {unknown[0]!r}{closest(unknown[0], names)}; it has: {', '.join(names)}"
            )
        functions: dict[str, Function] = {}
        for tool in tools:
            if self._only is None or tool.name in self._only:
                function = self._function(tool)
                if function.__name__ in functions:
                    raise _unusable_tool_error(tool, f"another one is called {function.__name__!r} in a script, too")
                functions[function.__name__] = function
        return functions

    def _function(self, tool: Tool) -> Function:
        def call(_name: str, arguments: dict[str, object]) -> object:
            called = partial(self._session.call_tool, tool.name, arguments, read_timeout_seconds=self._timeout)
            files = ResultFiles(environment_of_script.get())
            return value_of(self._loop.run(called), tool.output_schema, files)

        name = self._prefix + tool.name
        schema = {"name": name, "description": tool.description, "parameters": tool.input_schema}
        try:
            (function,) = tools_from_schemas([schema], call, decode_json=False).values()
        except ValueError as error:
            raise _unusable_tool_error(tool, str(error)) from error
        return function


async def _all_tools(session: ClientSession | Client) -> list[Tool]:
    listing = session.session if isinstance(session, Client) else session
    found: list[Tool] = []
    cursor: str | None = None
    while True:
        page = await listing.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        found += page.tools
        cursor = page.next_cursor
        if len(found) > MAX_TOOLS or (cursor and not page.tools):
            raise TerminalError(f"an MCP server lists tools without an end: over {len(found)}; {MAX_TOOLS} may be had")
        if not cursor:
            return found


def _unusable_tool_error(tool: Tool, why: str) -> SettingsError:
    return SettingsError(
        f"the MCP tool {tool.name!r} can't be called from a script: {why}; leave it out by naming the others, with "
        "only= of mcp_tools, or tools: of the server in config.yaml"
    )


class SessionLoop:
    """The event loop of the creating thread, for calls from other threads. On asyncio and on trio.

    Raises:
        ValueError: This thread has no event loop.
    """

    def __init__(self) -> None:
        token = _running_here()
        if token is None:
            raise ValueError(
                "mcp_tools has to be called where the session is open, in async code, and there is no event loop in "
                "this thread; with one in another thread, call it there: portal.call(mcp_tools, session)"
            )
        self._token = token

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine on the loop, and wait for the result. Cancelling this thread's scope cancels the coroutine.

        Raises:
            ValueError: This is the loop's own thread, where the wait would never end.
            CallCancelledError: The scope was cancelled.
            TerminalError: The loop has ended.
            Exception: The coroutine's own error.
        """
        here = _running_here()
        if here and here.native_token is self._token.native_token:
            raise ValueError(
                "the MCP session lives on this thread's event loop, which would wait for itself; run execute_code in "
                "another thread (await anyio.to_thread.run_sync(...)), or await hermes_env.aio.aexecute_code; for the "
                "tools as a mapping in async code, await mcp_tools(session)"
            )

        async def settled() -> T:  # runs with the context variables, and so the scope, of the waiting thread
            with anyio.CancelScope() as scope, on_scope_cancel(lambda: self._soon(scope.cancel)):
                return await work()
            raise CallCancelledError("the call of an MCP tool was cancelled by its caller")

        try:
            return anyio.from_thread.run(settled, token=self._token)
        except anyio.RunFinishedError:
            raise TerminalError("the event loop of the MCP session has ended; open the session anew") from None

    def _soon(self, function: Callable[[], object]) -> None:
        loop: Any = self._token.native_token
        with contextlib.suppress(RuntimeError):  # the loop has ended
            (getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon)(function)


def _running_here() -> EventLoopToken | None:
    try:
        return current_token()
    except RuntimeError:  # no loop runs in this thread
        return None

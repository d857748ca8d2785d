"""`mcp_tools`: the tools of a session that is open, as functions of a script."""

from __future__ import annotations

import threading
from collections.abc import Collection, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Self

from code_execution.mcp.calls import Function, McpCall
from environments.errors import SettingsError, TerminalError
from environments.extras import missing_library
from environments.plain_number import plain_number
from environments.validation import closest

if TYPE_CHECKING:
    from mcp import Client, ClientSession
    from mcp_types import Tool

MAX_TOOLS = 1_000
"""How many tools a server may list. Each is a function in the script's module."""
LISTING_LIMIT = 60.0
"""Seconds for the tools to be listed."""


class McpTools(Mapping[str, Function]):
    """The tools of a session by their names, listed when they are first looked at, or when this is awaited."""

    def __init__(
        self, session: ClientSession | Client, prefix: str, only: Collection[str] | None, timeout: float | None
    ) -> None:
        from code_execution.mcp.session_loop import SessionLoop

        self._session = session
        self._prefix = prefix
        self._only = only
        self._timeout = timeout
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
            self._functions = await self._found()
        return self

    def _listed(self) -> dict[str, Function]:
        with self._lock:
            if self._functions is None:
                self._functions = self._loop.run(self._found)
            return self._functions

    async def _found(self) -> dict[str, Function]:
        import anyio

        try:
            with anyio.fail_after(LISTING_LIMIT):
                listed = await _all_tools(self._session)
        except TimeoutError:
            raise TerminalError(
                f"an MCP server did not list its tools within {plain_number(LISTING_LIMIT)} s"
            ) from None
        return self._made(listed)

    def _made(self, listed: list[Tool]) -> dict[str, Function]:
        names = [tool.name for tool in listed]
        if unknown := [name for name in self._only or () if name not in names]:
            raise SettingsError(
                f"the MCP server has no tool {unknown[0]!r}{closest(unknown[0], names)}; it has: {', '.join(names)}"
            )
        functions: dict[str, Function] = {}
        for tool in listed:
            if self._only is None or tool.name in self._only:
                function = self._function(tool)
                if function.__name__ in functions:
                    raise _leave_out(tool, f"another one is called {function.__name__!r} in a script, too")
                functions[function.__name__] = function
        return functions

    def _function(self, tool: Tool) -> Function:
        call = McpCall(self._session, self._loop, tool, self._prefix + tool.name, self._timeout)
        try:
            return call.function()
        except ValueError as error:
            raise _leave_out(tool, str(error)) from error


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
    To put them together with other tools in async code: `{**await mcp_tools(session), "mine": mine}`. docs/mcp-tools.md
    says what results look like.

    Args:
        session: An open `ClientSession` that is initialized, or an open `Client`. This is called in the thread of its
            loop.
        prefix: What their names begin with in a script.
        only: The names of those that scripts may call, as the server has them; None is all of them.
        timeout: Seconds that one call may take; None leaves it to the session, and to the script's own limit.

    Raises:
        MissingExtraError: The MCP SDK is not installed.
        TypeError: The session is none.
        ValueError: There is no event loop in this thread.

    What looks at the mapping raises SettingsError where a tool can't be had under its name, TerminalError where the
    server does not answer in time, and ValueError in the thread of the session's loop.
    """
    try:
        from mcp import Client, ClientSession
    except ImportError:
        raise missing_library("mcp_tools", "mcp", "mcp") from None
    if not isinstance(session, ClientSession | Client):
        kind = type(session).__name__
        raise TypeError(f"session is of type {kind}; give an open mcp.ClientSession or mcp.Client")
    return McpTools(session, prefix, only, timeout)


async def _all_tools(session: ClientSession | Client) -> list[Tool]:
    from mcp import Client
    from mcp_types import PaginatedRequestParams

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


def _leave_out(tool: Tool, why: str) -> SettingsError:
    return SettingsError(
        f"the MCP tool {tool.name!r} can't be called from a script: {why}; leave it out by naming the others, with "
        "only= of mcp_tools, or tools: of the server in config.yaml"
    )

"""The tools of an open MCP session in a script, from a server in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from code_execution import ExecutionResult, execute_code, mcp_tools
from environments import BaseEnvironment, SettingsError, TerminalError
from environments.conformance.check import wait_until
from hermes_env.aio import aexecute_code

if TYPE_CHECKING:  # the import takes a second: only the processes of these tests pay
    from mcp import Client
    from mcp.server.mcpserver import MCPServer

pytestmark = pytest.mark.xdist_group("mcp")

CODE = """
import hermes_tools as tools
print(tools.add(1), tools.add(1, second=5), tools.find_orders("Ada"))
print(repr(tools.as_text()), tools.fail("no paper"))
print("add" in tools.add("one")["error"], tools.nothing())
picture = tools.picture()
print(open(picture.pop("path"), "rb").read(4), picture)
first, blob, text = tools.report()
print(first, open(blob.pop("path"), "rb").read(), blob, text)
help(tools.find_orders)
"""
PRINTED = [
    "3 6 {'customer': 'Ada', 'orders': [1, 2]}",
    "'{\"a\": 1}' {'error': 'no paper'}",
    "True None",
    "b'\\x89PNG' {'mime_type': 'image/png', 'size': 68}",
    "see below b'\\x00\\x01' {'uri': 'mem:/blob', 'mime_type': 'text/plain', 'size': 2} "
    "{'uri': 'mem:/text', 'mime_type': 'text/plain', 'text': 'words'}",
]


on_both_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])


def with_session(
    server: MCPServer, use: Callable[[Client], Awaitable[ExecutionResult]], loop: str = "asyncio"
) -> ExecutionResult:
    from mcp import Client

    async def main() -> ExecutionResult:
        async with Client(server) as client:
            return await use(client)

    return anyio.run(main, backend=loop)


@on_both_loops
def test_a_script_calls_the_tools_of_a_session(env: BaseEnvironment, server: MCPServer, loop: str) -> None:
    async def use(client: Client) -> ExecutionResult:
        run = partial(execute_code, CODE, env=env, tools=mcp_tools(client))
        return await anyio.to_thread.run_sync(run)

    result = with_session(server, use, loop)
    assert result.output.splitlines()[:5] == PRINTED
    assert "find_orders(customer: 'str')\n    Find the orders of a customer." in result.output
    assert "customer: Who has ordered." in result.output
    assert [(call.name, call.error) for call in result.tool_calls[3:5]] == [("as_text", None), ("fail", "no paper")]


@on_both_loops
def test_awaited_execute_code_calls_the_tools_of_a_session(env: BaseEnvironment, server: MCPServer, loop: str) -> None:
    code = "from hermes_tools import add, picture; print(add(1), open(picture()['path'], 'rb').read(4))"

    async def use(client: Client) -> ExecutionResult:
        return await aexecute_code(code, env=env, tools=mcp_tools(client))

    assert with_session(server, use, loop).output == "3 b'\\x89PNG'\n"


def test_a_call_has_a_limit_of_its_own(env: BaseEnvironment, server: MCPServer, leave_mark: Path) -> None:
    code = f"from hermes_tools import wait; print(wait({str(leave_mark)!r}))"

    async def use(client: Client) -> ExecutionResult:
        tools = mcp_tools(client, timeout=0.2)
        return await anyio.to_thread.run_sync(partial(execute_code, code, env=env, tools=tools))

    result = with_session(server, use)
    assert result.status == "success"
    assert "error" in result.output and "imed out" in result.output
    begun, cancelled = leave_mark.with_suffix(".begun"), leave_mark.with_suffix(".cancelled")
    assert wait_until(lambda: begun.exists() == cancelled.exists())  # the call may never have begun


def test_a_call_in_the_thread_of_the_sessions_loop_is_an_error_with_the_remedy(
    env: BaseEnvironment, server: MCPServer
) -> None:
    async def use(client: Client) -> ExecutionResult:
        with pytest.raises(ValueError, match=r"wait for itself.*to_thread\.run_sync"):
            execute_code("1", env=env, tools=mcp_tools(client))
        return await anyio.to_thread.run_sync(partial(execute_code, "print(1)", env=env, tools=mcp_tools(client)))

    assert with_session(server, use).output == "1\n"


def test_tools_of_a_session_combine_with_other_tools_in_awaited_calls(env: BaseEnvironment, server: MCPServer) -> None:
    code = (
        "import hermes_tools as t; print(t.here_add(1), t.ours(), hasattr(t, 'here_fail'), 'error' in t.here_picture())"
    )

    async def use(client: Client) -> ExecutionResult:
        found = await mcp_tools(client, prefix="here_", only=["add", "picture"])
        assert list(found) == ["here_add", "here_picture"] and len(found) == 2
        tools = {**found, "ours": lambda: 7}
        return await anyio.to_thread.run_sync(partial(execute_code, code, env=env, tools=tools))

    assert with_session(server, use).output == "3 7 False False\n"


def test_session_tools_of_an_ended_loop_are_an_error(env: BaseEnvironment, server: MCPServer) -> None:
    kept = []

    async def use(client: Client) -> ExecutionResult:
        kept.append(mcp_tools(client))
        kept.append(await mcp_tools(client))
        return ExecutionResult("success", "", 0, 0.0, 0)

    with_session(server, use)
    unlisted, listed = kept
    with pytest.raises(TerminalError, match="event loop of the MCP session has ended"):
        len(unlisted)
    with pytest.raises(TerminalError, match="has ended; open the session anew"):
        execute_code("1", env=env, tools=unlisted)
    result = execute_code("from hermes_tools import add; print(add(1))", env=env, tools=listed)
    assert "has ended; open the session anew" in result.output


def test_a_tool_that_scripts_cannot_call_is_refused_with_the_remedy(env: BaseEnvironment) -> None:
    from mcp.server.mcpserver import MCPServer

    odd = MCPServer("odd")
    for name in ("retry", "execute_code", "get-it", "get_it"):
        odd.add_tool(lambda: 1, name=name)

    async def with_only(client: Client, *only: str) -> ExecutionResult:
        tools = mcp_tools(client, only=only)
        return await anyio.to_thread.run_sync(partial(execute_code, "print(1)", env=env, tools=tools))

    async def use(client: Client) -> ExecutionResult:
        refused = [
            (("retry",), "'retry' is reserved.*leave it out by naming the others, with only="),
            (("get-it", "get_it"), "another one is called 'get_it' in a script"),
            (("getit",), r"has no tool 'getit' \(did you mean 'get"),
        ]
        for only, message in refused:
            with pytest.raises(SettingsError, match=message):
                await with_only(client, *only)
        with pytest.raises(ValueError, match="execute_code can't be called from a script"):
            await with_only(client, "execute_code", "get_it")
        return await with_only(client, "get_it")

    assert with_session(odd, use).output == "1\n"


def test_mcp_tools_wants_an_open_session_and_its_loop(server: MCPServer) -> None:
    from mcp import Client

    with pytest.raises(TypeError, match="session is of type str"):
        mcp_tools("http://127.0.0.1/mcp")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"no event loop in this thread.*portal\.call"):
        mcp_tools(Client(server))

"""The tools of an open MCP session in a script: over stdio and HTTP, on asyncio and trio."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from code_execution import ExecutionResult, execute_code, mcp_tools
from environments import BaseEnvironment, CancelScope

CODE = "import hermes_tools as tools; print(tools.add(1), tools.fail('no paper'))"
PRINTED = "3 {'error': 'no paper'}\n"


@pytest.fixture(params=["asyncio", "trio"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def with_session(opened: Client, use: Callable[[Client], Awaitable[ExecutionResult]], loop: str) -> ExecutionResult:
    async def main() -> ExecutionResult:
        async with opened as client:
            return await use(client)

    return anyio.run(main, backend=loop)


def run_script(code: str, opened: Client, env: BaseEnvironment, loop: str, **arguments: object) -> ExecutionResult:
    async def use(client: Client) -> ExecutionResult:
        run = partial(execute_code, code, env=env, tools=mcp_tools(client), **arguments)  # type: ignore[arg-type]
        return await anyio.to_thread.run_sync(run)

    return with_session(opened, use, loop)


def test_a_script_calls_the_tools_of_a_session_over_stdio(env: BaseEnvironment, loop: str, program: str) -> None:
    opened = Client(StdioServerParameters(command=sys.executable, args=[program]))
    assert run_script(CODE, opened, env, loop).output == PRINTED


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")  # httpx leaves its generators to trio
def test_a_script_calls_the_tools_of_a_session_over_http(env: BaseEnvironment, loop: str, url: str, token: str) -> None:
    @contextlib.asynccontextmanager
    async def session() -> AsyncIterator[ClientSession]:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
            streamable_http_client(url, http_client=http) as (read, write),
            ClientSession(read, write) as opened,
        ):
            await opened.initialize()
            yield opened

    async def main() -> ExecutionResult:
        async with session() as opened:
            run = partial(execute_code, CODE, env=env, tools=mcp_tools(opened))
            return await anyio.to_thread.run_sync(run)

    assert anyio.run(main, backend=loop).output == PRINTED


def test_a_call_ends_in_the_server_with_its_script(
    env: BaseEnvironment, loop: str, program: str, leave_mark: Path
) -> None:
    code = f"import hermes_tools; hermes_tools.wait({str(leave_mark)!r})"
    opened = Client(StdioServerParameters(command=sys.executable, args=[program]))
    scope = CancelScope()

    async def use(client: Client) -> ExecutionResult:
        tools = mcp_tools(client)

        def run() -> ExecutionResult:
            with scope.active():
                return execute_code(code, env=env, tools=tools)

        async with anyio.create_task_group() as group:

            async def cancel_once_begun() -> None:
                while not leave_mark.with_suffix(".begun").exists():
                    await anyio.sleep(0.02)
                scope.cancel()

            group.start_soon(cancel_once_begun)
            result = await anyio.to_thread.run_sync(run)
        while not leave_mark.with_suffix(".cancelled").exists():
            await anyio.sleep(0.02)
        return result

    assert with_session(opened, use, loop).status == "interrupted"

"""Awaited scripts with awaited tools."""

from __future__ import annotations

import threading

import anyio
import pytest
from targets.awaiting import LONG, on_both_loops, until
from targets.processes import processes_with

from code_execution import ToolCall, mcp_tools
from environments.approvals import ScriptRequest, ToolCallRequest
from hermes_env.aio import AsyncEnvironment, aexecute_code, limit_threads

pytestmark = pytest.mark.anyio


class Service:
    """Tools bound to the test's event loop."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.asked, self.ended = anyio.Event(), anyio.Event()
        self.threads: set[int] = set()

    async def add(self, a: int, b: int = 1) -> int:
        """Add two numbers."""
        async with self.lock:
            await anyio.sleep(0)
            self.threads.add(threading.get_ident())
        return a + b

    async def hang(self) -> None:
        """Hang."""
        self.asked.set()
        try:
            await anyio.sleep(LONG)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            self.ended.set()


@on_both_loops
async def test_tools_are_awaited_on_the_callers_loop(env: AsyncEnvironment) -> None:
    service = Service()
    code = """
import inspect, threading
from hermes_tools import add
print(inspect.signature(add), add.__doc__, add(1), add(a=2, b=3))
answers = {}
threads = [threading.Thread(target=lambda n=n: answers.update({n: add(n)})) for n in range(5)]
for t in threads: t.start()
for t in threads: t.join()
print(answers == {n: n + 1 for n in range(5)}, "error" in add("x"))
"""
    result = await aexecute_code(code, env=env, tools={"add": service.add})
    assert result.output == "(a: 'int', b: 'int' = 1) -> 'int' Add two numbers. 2 5\nTrue True\n"
    assert service.threads == {threading.get_ident()}


async def test_a_tool_may_await_commands_of_the_same_environment(env: AsyncEnvironment) -> None:
    async def run(command: str) -> str:
        """Run a command."""
        return (await env.execute(command)).output

    limit_threads(commands=1, scripts=1)
    try:
        code = "from hermes_tools import run\nrun('export N=1'); print(run('echo $N'))"
        result = await aexecute_code(code, env=env, tools={"run": run})
    finally:
        limit_threads(commands=64, scripts=32)
    assert result.output.strip() == "1"


async def test_the_usual_tools_are_there_and_plain_ones_too(env: AsyncEnvironment) -> None:
    result = await aexecute_code("import hermes_tools; print(hermes_tools.terminal('echo on')['output'])", env=env.sync)
    assert result.output.strip() == "on"
    result = await aexecute_code("import hermes_tools; print(hermes_tools.f())", env=env, tools={"f": lambda: 7})
    assert result.output == "7\n"


async def test_callbacks_are_awaited_on_the_callers_loop(env: AsyncEnvironment) -> None:
    told: list[object] = []

    async def tell(what: object) -> None:
        await anyio.sleep(0)
        assert threading.get_ident() == here
        told.append(what if isinstance(what, str) else type(what))

    here = threading.get_ident()
    await aexecute_code(
        "import hermes_tools; hermes_tools.f(); print('end')",
        env=env,
        tools={"f": int},
        on_output=tell,
        on_tool_call=tell,
        before_script=tell,
        before_tool_call=tell,
    )
    assert told[:3] == [ScriptRequest, ToolCallRequest, ToolCall]
    assert "".join(map(str, told[3:])) == "end\n"


@on_both_loops
async def test_a_cancelled_script_is_ended_with_its_tools_and_what_they_run(env: AsyncEnvironment, nap: str) -> None:
    service = Service()

    async def sleep() -> None:
        await env.execute_oneshot(f"sleep {nap}")

    code = f"""
import hermes_tools, subprocess, threading
threading.Thread(target=hermes_tools.hang).start()
threading.Thread(target=hermes_tools.sleep).start()
subprocess.run(["sleep", "{nap}"])
"""
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: aexecute_code(code, env=env, tools={"hang": service.hang, "sleep": sleep}))
        await service.asked.wait()
        await until(lambda: len(processes_with(nap)) >= 2)
        group.cancel_scope.cancel()
    assert service.ended.is_set()
    assert not processes_with(nap)


async def test_a_tool_ends_with_its_script(env: AsyncEnvironment) -> None:
    service = Service()
    code = """
import hermes_tools, os, threading, time
threading.Thread(target=hermes_tools.hang, daemon=True).start()
while not hermes_tools.asked(): time.sleep(0.02)
"""
    tools = {"hang": service.hang, "asked": service.asked.is_set}
    result = await aexecute_code(code, env=env, tools=tools)
    assert result.status == "success"
    assert service.ended.is_set()


async def test_an_interrupted_script_has_a_result(env: AsyncEnvironment) -> None:
    event = threading.Event()

    async def stop() -> None:
        event.set()
        await anyio.sleep(LONG)

    code = "import hermes_tools; hermes_tools.stop()"
    result = await aexecute_code(code, env=env, tools={"stop": stop}, interrupt=event)
    assert result.status == "interrupted"


@pytest.mark.xdist_group("mcp")
async def test_the_tools_of_an_mcp_session_of_the_same_loop_can_be_called(env: AsyncEnvironment) -> None:
    # Otherwise every worker would import this module, for seconds.
    from mcp import Client
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("adder", log_level="WARNING")
    server.tool()(Service.add.__get__(Service()))
    async with Client(server) as session:
        code = "from hermes_tools import add; print(add(1, b=2))"
        result = await aexecute_code(code, env=env, tools=mcp_tools(session))
    assert result.output == "3\n"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from targets.awaiting import until
from targets.mcp_notifications import UNTIL_NOTIFIED, Notifications
from targets.mcp_server import TOKEN, WebServer, run
from targets.processes import all_gone, processes_with

if TYPE_CHECKING:
    from mcp.client.client import Client

pytestmark = pytest.mark.xdist_group("mcp")


def test_a_client_is_told_of_output_while_a_command_runs(web_server: WebServer) -> None:
    received = Notifications()

    async def test() -> None:
        async with web_server.client(logging_callback=received.log) as client, anyio.create_task_group() as group:

            async def call() -> None:
                result = await client.call_tool(
                    "terminal", {"command": UNTIL_NOTIFIED}, progress_callback=received.note
                )
                assert result.structured_content == {"output": "early\nlate\n", "exit_code": 0, "error": None}

            group.start_soon(call)
            await until(lambda: "early" in received.shown("terminal") and bool(received.progress))
            await client.call_tool("execute_code", {"code": "open('told', 'w').close()"})

    run(test)
    assert {level for level, _, _ in received.messages} == {"info"}
    amounts = [amount for amount, _ in received.progress]
    assert amounts == sorted(set(amounts))
    assert all(message for _, message in received.progress)


def test_no_result_holds_the_token(web_server: WebServer) -> None:
    async def test() -> None:
        async with web_server.client() as client:
            result = await client.call_tool("terminal", {"command": f"echo {TOKEN}; echo ${{HERMES_MCP_TOKEN-none}}"})
            assert result.structured_content["output"] == "[REDACTED:HERMES_MCP_TOKEN]\nnone\n"

    run(test)


def test_a_script_reports_progress_while_it_runs(web_server: WebServer) -> None:
    received = Notifications()
    code = (
        "import os, time\nprint('early', flush=True)\nwhile not os.path.exists('script told'): time.sleep(0.1)\n"
        "os.remove('script told')"
    )

    async def test() -> None:
        async with web_server.client(logging_callback=received.log) as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "execute_code", {"code": code})
            await until(lambda: received.shown("execute_code") == "early\n")
            await client.call_tool("terminal", {"command": "touch 'script told'"})

    run(test)


def test_a_client_at_level_warning_gets_no_output_and_still_progress(web_server: WebServer) -> None:
    from mcp.shared.exceptions import MCPDeprecationWarning

    received = Notifications()

    async def test() -> None:
        async with web_server.client(logging_callback=received.log) as client, anyio.create_task_group() as group:
            with pytest.warns(MCPDeprecationWarning):
                await client.set_logging_level("warning")

            async def call() -> None:
                await client.call_tool("terminal", {"command": UNTIL_NOTIFIED}, progress_callback=received.note)

            group.start_soon(call)
            await until(lambda: any(message == "early" for _, message in received.progress))
            await client.call_tool("execute_code", {"code": "open('told', 'w').close()"})

    run(test)
    assert received.messages == []


COMMAND = "setsid sleep {nap} & sleep {nap}"
SCRIPT = "from hermes_tools import terminal\nterminal('setsid sleep {nap} & sleep {nap}')"


async def _cancelled(client: Client, nap: str, tool: str, **arguments: Any) -> None:
    """Call a tool that starts a sleeping process, and cancel the call once the process sleeps."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, tool, arguments)
            await until(lambda: bool(processes_with(nap)))
            scope.cancel()
    await until(lambda: not processes_with(nap))


def test_a_command_and_a_script_that_are_cancelled_end_in_the_target(web_server: WebServer, nap: str) -> None:
    async def test() -> None:
        async with web_server.client() as client:
            await _cancelled(client, nap, "terminal", command=COMMAND.format(nap=nap))
            await _cancelled(client, nap, "execute_code", code=SCRIPT.format(nap=nap))
            result = await client.call_tool("terminal", {"command": "echo usable"})
            assert result.structured_content["output"] == "usable\n"

    run(test)
    assert all_gone(nap)


def test_a_cancelled_terminal_command_and_a_cancelled_wait_end_in_the_target(web_server: WebServer, nap: str) -> None:
    async def test() -> None:
        async with web_server.client() as client:
            await _cancelled(client, nap, "terminal", command=f"sleep {nap}", pty=True)
            started = await client.call_tool("terminal", {"command": "sleep 1000", "background": True})
            waited = {"action": "wait", "process_id": started.structured_content["process_id"], "timeout": 1000}
            with anyio.move_on_after(0.2):
                await client.call_tool("process", waited)
            from hermes_env.mcp.session import MAX_CALLS

            # As many calls run as may run at once.
            async with anyio.create_task_group() as group:
                for _ in range(MAX_CALLS):
                    group.start_soon(client.call_tool, "terminal", {"command": "true"})

    run(test)

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from targets.awaiting import until
from targets.mcp_server import TOKEN, WebServer, run
from targets.mcp_wire import INITIALIZE, call_of, open_request, request
from targets.processes import processes_with

from environments.conformance.check import wait_until

if TYPE_CHECKING:
    from mcp.client.client import Client

pytestmark = pytest.mark.xdist_group("mcp")


async def _printed(client: Client, command: str) -> str:
    result = await client.call_tool("terminal", {"command": command})
    assert not result.is_error, result
    return str(result.structured_content["output"]).strip()


def test_each_session_has_an_environment_of_its_own(web_server: WebServer) -> None:
    async def test() -> None:
        async with web_server.client() as one, web_server.client() as another:
            there = await _printed(another, "pwd")
            await _printed(one, "cd /tmp; export MINE=1")
            assert await _printed(one, "echo $PWD $MINE") == "/tmp 1"
            assert await _printed(another, "echo $PWD $MINE") == there

    run(test)


def test_a_python_session_ends_with_the_session_of_its_client(web_server: WebServer, nap: str) -> None:
    code = f"import subprocess; subprocess.Popen(['sleep', '{nap}'])"

    async def test() -> None:
        async with web_server.client() as client:
            result = await client.call_tool("execute_code", {"code": code, "session": "kept"})
            assert result.structured_content["status"] == "success"
            assert processes_with(nap)
        await until(lambda: not processes_with(nap))

    run(test)


def test_a_call_ends_when_its_client_is_cut_off(web_server: WebServer, nap: str) -> None:
    _, headers, _ = request(web_server.url, INITIALIZE, TOKEN)
    session = headers["mcp-session-id"]
    call = call_of("terminal", command=f"sleep {nap}")
    connection, response = open_request(web_server.url, call, TOKEN, Mcp_Session_Id=session)
    with response:
        assert response.status == 200
        assert wait_until(lambda: bool(processes_with(nap)), 60)
        connection.close()
    assert wait_until(lambda: not processes_with(nap), 60)
    assert request(web_server.url, "", TOKEN, method="DELETE", Mcp_Session_Id=session)[0] == 200

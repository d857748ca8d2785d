from __future__ import annotations

import json
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from targets.awaiting import until
from targets.mcp_server import TOKEN, Session, WebServer, run, serving
from targets.mcp_wire import INITIALIZE, answered, begun, call_of
from targets.processes import having

from environments.conformance.check import wait_until

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


def test_a_session_that_nobody_uses_ends(server_variables: dict[str, str], tmp_path: Path, nap: str) -> None:
    async def test() -> None:
        with serving(server_variables, "--cwd", str(tmp_path), "--idle-timeout", "0.5") as server:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with create_mcp_http_client(headers) as http:
                # A client that goes without a word.
                left = streamable_http_client(server.url, http_client=http, terminate_on_close=False)
                async with Client(left) as client:
                    await client.call_tool("terminal", {"command": f"sleep {nap}", "background": True})
                    await until(lambda: bool(having(nap)))
            await until(lambda: not having(nap))

    run(test)


def test_a_call_ends_when_its_client_is_cut_off(web_server: WebServer, nap: str) -> None:
    _, headers, _ = answered(web_server.url, INITIALIZE, TOKEN)
    session = headers["mcp-session-id"]
    call = call_of("terminal", command=f"sleep {nap}")
    connection, response = begun(web_server.url, call, TOKEN, Mcp_Session_Id=session)
    with response:
        assert response.status == 200
        assert wait_until(lambda: bool(having(nap)), 60)
        connection.close()
    assert wait_until(lambda: not having(nap), 60)
    assert answered(web_server.url, "", TOKEN, method="DELETE", Mcp_Session_Id=session)[0] == 200


def test_a_record_holds_what_the_session_did(over_stdio: Session, tmp_path: Path) -> None:
    async def test() -> None:
        async with over_stdio("--cwd", str(tmp_path), "--record", str(tmp_path / "record")) as client:
            await client.call_tool("write_file", {"path": "poem", "content": "roses"})
            await client.call_tool("execute_code", {"code": "from hermes_tools import terminal\nterminal('cat poem')"})

    run(test)
    events = [json.loads(line) for line in (tmp_path / "record").read_text().splitlines()]
    assert [event["event"] for event in events].count("run") == 1
    begun = [(event["kind"], event["name"]) for event in events if event["event"] == "begin"]
    assert ("tool_call", "write_file") in begun
    assert ("script", "from hermes_tools import terminal") in begun
    assert begun[-2:] == [("tool_call", "terminal"), ("command", "cat poem")]

"""MCP servers, each in a process of its own, which takes seconds to start."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from targets.awaiting import until
from targets.command_line import WORDS
from targets.mcp_server import TOKEN, Session, run, serving
from targets.mcp_wire import INITIALIZE, Pipe, call_of, files_to_open, half_open_connections, open_request, request
from targets.processes import all_gone, processes_with

from environments.conformance.check import wait_until
from hermes_env.mcp.http import MAX_CONNECTIONS

pytestmark = pytest.mark.xdist_group("mcp")


def test_a_session_that_nobody_uses_ends(server_variables: dict[str, str], tmp_path: Path, nap: str) -> None:
    async def test() -> None:
        with serving(server_variables, "--cwd", str(tmp_path), "--idle-timeout", "0.5") as server:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with create_mcp_http_client(headers) as http:
                # A client that leaves without ending its session.
                left = streamable_http_client(server.url, http_client=http, terminate_on_close=False)
                async with Client(left) as client:
                    await client.call_tool("terminal", {"command": f"sleep {nap}", "background": True})
                    await until(lambda: bool(processes_with(nap)))
            await until(lambda: not processes_with(nap))

    run(test)


def test_a_connection_outlasts_a_pause_of_its_client(server_variables: dict[str, str]) -> None:
    """uvicorn closes an idle connection after 5 s by default."""
    with serving(server_variables) as server:
        connection, response = open_request(server.url, INITIALIZE, TOKEN)
        with contextlib.closing(connection):
            response.read()
            wire = connection.sock
            time.sleep(6)
            connection.request("DELETE", "/mcp", headers={"Authorization": f"Bearer {TOKEN}"})
            assert connection.getresponse().status == 400  # the request has no session id
            assert connection.sock is wire


def test_strangers_leave_the_server_files_to_open(server_variables: dict[str, str], tmp_path: Path) -> None:
    with contextlib.ExitStack() as limited, contextlib.ExitStack() as stack:
        limited.enter_context(files_to_open(1024))
        server = stack.enter_context(serving(server_variables, "--cwd", str(tmp_path)))
        limited.close()
        stack.enter_context(half_open_connections(server.url, MAX_CONNECTIONS + 100))
        session = request(server.url, INITIALIZE, TOKEN)[1]["mcp-session-id"]
        call = call_of("execute_code", code="from hermes_tools import terminal; print(terminal('echo in')['output'])")
        assert '"output":"in\\n\\n"' in request(server.url, call, TOKEN, Mcp_Session_Id=session)[2]


def test_a_short_token_is_warned_of_where_only_this_machine_can_connect(server_variables: dict[str, str]) -> None:
    command = [sys.executable, "-m", "hermes_env", "mcp", "--http", "127.0.0.1:0"]
    variables = {**server_variables, "HERMES_MCP_TOKEN": "short"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables) as process:
        assert process.stdout
        assert request(process.stdout.readline().strip(), INITIALIZE, "short")[0] == 200
        process.terminate()
        assert "can be guessed by other users of this machine" in process.communicate()[1]


def test_input_and_output_may_be_files(server_variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "in").write_text(json.dumps(INITIALIZE) + "\n")
    with (tmp_path / "in").open() as given, (tmp_path / "out").open("w") as taken:
        subprocess.run(
            [sys.executable, "-m", "hermes_env", "mcp"], stdin=given, stdout=taken, env=server_variables, check=True
        )
    (line,) = (tmp_path / "out").read_text().splitlines()
    assert json.loads(line)["result"]["serverInfo"]["name"] == "hermes-env"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_what_a_client_started_ends_with_a_signal(server_variables: dict[str, str], number: int, nap: str) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*WORDS, "mcp"], env=server_variables, **pipes) as process:
        pipe = Pipe(process)
        pipe.send(INITIALIZE)
        pipe.receive()
        pipe.send(call_of("terminal", command=f"sleep {nap}"))
        assert wait_until(lambda: bool(processes_with(nap)), 60)
        process.send_signal(number)
        assert process.wait(60) == 0
    assert all_gone(nap)


def test_the_official_client_starts_a_server_over_stdio(over_stdio: Session) -> None:
    async def test() -> None:
        async with over_stdio() as client:
            assert client.server_info.name == "hermes-env"
            result = await client.call_tool("terminal", {"command": "echo there"})
            assert result.structured_content == {"output": "there\n", "exit_code": 0, "error": None}

    run(test)

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from docker import DockerClient
from docker.errors import NotFound
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from targets.awaiting import until
from targets.engines import require_docker
from targets.processes import having

from environments.conformance.check import wait_until

from .conftest import ON_DOCKER, TOKEN, Session, WebServer, run, serving
from .raw_client import INITIALIZE, answered, begun, call_of

pytestmark = pytest.mark.xdist_group("mcp")


@pytest.fixture
def engine() -> Iterator[DockerClient]:
    client = require_docker()
    yield client
    client.close()


async def _printed(client: Client, command: str) -> str:
    result = await client.call_tool("terminal", {"command": command})
    assert not result.is_error, result
    return str(result.structured_content["output"]).strip()


def _is_gone(engine: DockerClient, container: str) -> bool:
    try:
        engine.containers.get(container)
    except NotFound:
        return True
    return False


def test_each_session_has_an_environment_of_its_own(web_server_on_docker: WebServer) -> None:
    async def test() -> None:
        async with web_server_on_docker.client() as one, web_server_on_docker.client() as another:
            assert await _printed(one, "cd /tmp; export MINE=1; hostname") != await _printed(another, "hostname")
            assert await _printed(one, "echo $PWD $MINE") == "/tmp 1"
            assert await _printed(another, "echo $PWD $MINE") == "/workspace"

    run(test)


def test_a_container_goes_with_its_session(
    over_stdio: Session, web_server_on_docker: WebServer, engine: DockerClient
) -> None:
    async def test() -> None:
        async with over_stdio(*ON_DOCKER) as client:
            name = await _printed(client, "hostname")
            assert not _is_gone(engine, name)
        assert _is_gone(engine, name)
        async with web_server_on_docker.client() as client:
            name = await _printed(client, "hostname")
        await until(lambda: _is_gone(engine, name))

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


def test_control_c_ends_all_sessions_and_what_they_run(
    server_variables: dict[str, str], engine: DockerClient, nap: str
) -> None:
    async def test() -> None:
        with serving(server_variables, *ON_DOCKER) as server:
            async with server.client() as client:
                name = await _printed(client, "hostname")

                async def call() -> None:
                    result = await client.call_tool("terminal", {"command": f"sleep {nap}"})
                    assert result.structured_content == {"error": "it was ended, as the session is"}

                async with anyio.create_task_group() as group:
                    group.start_soon(call)
                    await until(lambda: bool(having(nap)))
                    server.process.send_signal(signal.SIGINT)
            await until(lambda: server.process.poll() is not None)
            assert not having(nap)
            assert _is_gone(engine, name)

    run(test)


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

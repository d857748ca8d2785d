from __future__ import annotations

import json
import socket
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from targets.mcp_server import TOKEN, WebServer, run
from targets.mcp_wire import (
    DISCOVER,
    INITIALIZE,
    MODERN,
    call_of,
    check_discovery,
    half_open_connections,
    open_request,
    request,
)
from typer.testing import CliRunner

from hermes_env.cli import app
from hermes_env.mcp.http import MAX_CONNECTIONS

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

pytestmark = pytest.mark.xdist_group("mcp")


def test_without_the_token_nothing_is_answered(web_server: WebServer) -> None:
    for token in (None, "", "wrong", TOKEN + "x", TOKEN[:-1], "\xe9" * 20):
        status, headers, _ = request(web_server.url, INITIALIZE, token)
        assert (status, headers["www-authenticate"]) == (401, "Bearer"), token
        assert "mcp-session-id" not in headers


def test_a_page_from_elsewhere_is_refused(web_server: WebServer) -> None:
    for status, headers in (
        (421, {"Host": "evil.example"}),
        (421, {"Host": "evil.example:80"}),
        (403, {"Origin": "http://evil.example"}),
        (403, {"Origin": "null"}),
        (421, {"Host": "127.0.0.1:x.evil.example"}),
        (421, {"Host": "127.0.0.1:80@evil.example"}),
        (403, {"Origin": "http://127.0.0.1:x.evil.example"}),
        (403, {"Origin": "http://127.0.0.1:80@evil.example"}),
        (200, {"Origin": "http://[::1]:6274"}),
        (200, {"Origin": "http://localhost:6274"}),
        (200, {"Host": "localhost:1234"}),
    ):
        assert request(web_server.url, INITIALIZE, TOKEN, **headers)[0] == status, headers


def test_a_client_of_the_newest_protocol_discovers_the_versions_that_are_spoken(web_server: WebServer) -> None:
    modern = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "server/discover"}
    status, headers, text = request(web_server.url, DISCOVER, TOKEN, **modern)
    assert (status, "mcp-session-id" in headers) == (200, False)
    check_discovery(json.loads(text))
    assert request(web_server.url, DISCOVER, None, **modern)[0] == 401


def test_another_request_of_the_newest_protocol_is_refused_with_those_versions(web_server: WebServer) -> None:
    for version in (MODERN, "2030-01-01", "x"):
        for message, method in ((INITIALIZE, "initialize"), (call_of("terminal", command="true"), "tools/call")):
            how = {"MCP_Protocol_Version": version, "Mcp_Method": method}
            status, _, text = request(web_server.url, message, TOKEN, **how)
            error = json.loads(text)["error"]
            assert (status, error["code"], error["data"]["requested"]) == (400, -32022, version)
            assert "2025-11-25" in error["data"]["supported"] and MODERN not in error["data"]["supported"]


def test_the_official_client_finds_the_protocol_whichever_it_begins_with(web_server: WebServer) -> None:
    async def test() -> None:
        for mode in ("auto", "legacy"):
            async with web_server.client(mode=mode) as client:
                assert client.protocol_version == "2025-11-25"

    run(test)


@pytest.mark.usefixtures("without_collector")
def test_an_invalid_message_is_refused_and_the_server_goes_on(web_server: WebServer) -> None:
    no_messages = ["", "{", "[]", "null", '"text"', "[" * 100_000, "\x00\xff"]
    for body in [*no_messages, '{"jsonrpc": "2.0", "method": 7, "id": 1}']:
        assert request(web_server.url, body.encode("latin-1"), TOKEN)[0] == 400, body[:50]
    assert request(web_server.url, INITIALIZE, TOKEN)[0] == 200


def test_an_unknown_session_and_an_unknown_path_are_not_found(web_server: WebServer) -> None:
    call = call_of("terminal", command="true")
    assert request(web_server.url, call, TOKEN, Mcp_Session_Id="0" * 32)[0] == 404
    assert request(web_server.url, call, TOKEN)[0] == 400
    assert request(web_server.url.replace("/mcp", "/"), INITIALIZE, TOKEN)[0] == 404


def _refusal(*words: str, token: str | None = TOKEN) -> str:
    done = CliRunner().invoke(app, ["mcp", *words], env={"HERMES_MCP_TOKEN": token}, catch_exceptions=False)
    assert done.exit_code in (2, 125)
    return done.stderr


def test_idle_connections_keep_no_client_out(web_server: WebServer) -> None:
    connection, response = open_request(web_server.url, INITIALIZE, TOKEN)
    response.read()
    wire, first = connection.sock, response.headers["mcp-session-id"]
    with closing(connection), half_open_connections(web_server.url, MAX_CONNECTIONS + 1):
        for _ in range(3):
            status, headers, _ = request(web_server.url, INITIALIZE, TOKEN)
            assert status == 200
            session = headers["mcp-session-id"]
            assert request(web_server.url, "", TOKEN, method="DELETE", Mcp_Session_Id=session)[0] == 200
        # A pausing client's connection is also kept.
        connection.request("DELETE", "/mcp", headers={"Authorization": f"Bearer {TOKEN}", "Mcp-Session-Id": first})
        assert (connection.getresponse().status, connection.sock is wire) == (200, True)


def test_the_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(given: bytes, right: bytes) -> bool:
        compared.append(given)
        return given == right

    monkeypatch.setattr("hermes_env.mcp.http.secrets.compare_digest", compare)
    assert _status_of({"host": "box", "authorization": "Bearer wrong"}) == 401
    assert _status_of({"host": "box", "authorization": f"bearer {TOKEN}"}) == 200
    assert compared == [b"wrong", TOKEN.encode()]


def test_the_server_does_not_start_without_a_strong_token(hermes_env) -> None:
    done = hermes_env("mcp", "--http", "127.0.0.1:0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "HERMES_MCP_TOKEN is not set. Make one by: export HERMES_MCP_TOKEN=$(python3 -c" in done.stderr
    refusal = _refusal("--http", "0.0.0.0:0", token="short")
    assert "is shorter than 16 characters, and so can be guessed by other machines" in refusal


def test_the_token_is_in_no_variable_that_other_processes_are_shown(web_server: WebServer) -> None:
    shown = Path(f"/proc/{web_server.process.pid}/environ").read_bytes()
    assert b"HERMES_HOME=" in shown and TOKEN.encode() not in shown


def test_impossible_options_are_an_error_before_any_client_connects() -> None:
    for words, error in (
        (["--http", "nowhere"], "--http nowhere: it should be HOST:PORT"),
        (["--http", "127.0.0.1:99999"], "--http 127.0.0.1:99999: it should be HOST:PORT"),
        (["--tool", "terminl"], "--tool terminl: there is no such tool (did you mean 'terminal'?)"),
        (["--idle-timeout", "0"], "--idle-timeout 0: it should be a number of seconds above 0"),
        (["--set", "timeuot=5"], "timeuot"),
        (["--backend", "nowhere"], "nowhere"),
    ):
        assert error in _refusal(*words), words


def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"cannot listen on {where}: Address already in use" in _refusal("--http", where)


def _status_of(headers: dict[str, str]) -> int:
    """Return the status of a request to a server named `box`, `proxy.example` and `other.example:8000`."""
    from starlette.responses import Response

    from hermes_env.mcp.http import RequestFilter

    async def behind(scope: Scope, receive: Receive, send: Send) -> None:
        await Response()(scope, receive, send)

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def test() -> None:
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": encoded}
        await RequestFilter(behind, TOKEN, ["box", "proxy.example", "other.example:8000"])(scope, _nothing, send)

    run(test)
    return int(sent[0]["status"])


def test_requests_for_the_given_host_names_are_accepted() -> None:
    for name, status in {
        "box": 200,
        "box:8000": 200,
        "Proxy.Example": 200,
        "other.example:8000": 200,
        "other.example:8001": 421,
        "other.example": 421,
        "box.evil.example": 421,
        "box:8000.evil.example": 421,
        "evil.example": 421,
        "evil.example#box": 421,
        "": 421,
    }.items():
        assert _status_of({"host": name, "authorization": f"bearer {TOKEN}"}) == status, name


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def test_a_port_without_a_host_is_on_loopback() -> None:
    from hermes_env.mcp.http import Listener

    listener = Listener("0")
    listener.socket.close()
    assert listener.url == f"http://127.0.0.1:{listener.port}/mcp"
    assert listener.is_local


def test_without_the_extra_the_command_names_its_installation(hermes_env, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp" or name.startswith("hermes_env.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    done = hermes_env("mcp")
    assert done.returncode == 125
    assert "hermes-env mcp needs the extra mcp (mcp is not installed)" in done.stderr
    assert "pip install 'hermes-environments[mcp]'" in done.stderr

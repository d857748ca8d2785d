"""The network proxy, with the target's program as a child of this process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading

import pytest
from targets.local_proxy import LocalProxy, NameTable, head_of, local_proxy, rest_of, web

from environments.errors import EnvironmentStartError
from environments.loop import current, run


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_listed_host_is_reached_by_its_url_and_by_a_tunnel() -> None:
    with web() as server, local_proxy(server.place) as here:
        assert here.get(f"http://{server.place}/one?a=b").endswith(b"this is /one?a=b")
        with here.connected() as client:
            client.sendall(f"CONNECT {server.place} HTTP/1.1\r\n\r\n".encode())
            assert status(head_of(client)) == 200
            client.sendall(b"GET /two HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n")
            assert rest_of(client).endswith(b"this is /two")
        assert here.refused == []


@pytest.mark.parametrize("method", ["GET http://{}/ HTTP/1.1", "CONNECT {} HTTP/1.1"])
def test_an_unlisted_host_is_refused_by_name_and_recorded(method: str) -> None:
    with local_proxy("example.org") as here:
        answer = here.answer(f"{method.format('other.example:8080')}\r\n\r\n".encode())
        assert status(answer) == 403
        assert answer.count(b"other.example") >= 2, "also in the status line: some programs show nothing else"
        assert b"add other.example:8080 to the network setting" in answer
        assert here.refused == [("other.example", 8080)]


def test_a_listed_port_excludes_other_ports() -> None:
    with web() as server, local_proxy(server.place) as here:
        assert status(here.get(f"http://127.0.0.2:{server.port + 1}/")) == 403
        assert status(here.get("http://127.0.0.2/")) == 403


@pytest.mark.parametrize(
    "form",
    ["2130706434", "0x7f000002", "0x7f.0.0.2", "0177.0.0.2", "127.2", "[::ffff:127.0.0.2]", "[::127.0.0.2]", "::1"],
)
def test_no_form_of_a_number_leads_around_the_list(form: str) -> None:
    with web() as server, local_proxy("example.org", "*.org", "localhost") as here:
        assert status(here.get(f"http://{form}:{server.port}/")) in (400, 403)
        assert status(here.answer(f"CONNECT {form}:{server.port} HTTP/1.1\r\n\r\n".encode())) in (400, 403)
        assert server.requests == []


@pytest.mark.parametrize("host", ["EXAMPLE.org", "example.org.", "ExAmPlE.oRg."])
def test_a_name_is_the_same_in_any_case_and_with_a_dot(host: str) -> None:
    with web() as server, local_proxy("Example.Org", "127.0.0.2", lookup=NameTable(example_org="127.0.0.2")) as here:
        assert status(here.get(f"http://{host}:{server.port}/")) == 200
        assert server.requests[0][2]["Host"] == f"example.org:{server.port}"


def test_a_listed_name_that_leads_to_a_private_address_is_refused_unless_that_is_listed() -> None:
    names = NameTable(inner_example="127.0.0.2")
    with web() as server, local_proxy("inner.example", lookup=names) as here:
        answer = here.get(f"http://inner.example:{server.port}/")
        assert status(answer) == 403 and b"127.0.0.2, which is not public" in answer
        here.set_hosts("inner.example", f"127.0.0.2:{server.port}")
        assert status(here.get(f"http://inner.example:{server.port}/")) == 200


def test_a_rebound_name_is_looked_up_once_and_the_checked_address_is_dialled() -> None:
    names = NameTable(rebound_example=["127.0.0.2", "127.0.0.3"])
    with web("127.0.0.3") as secret, local_proxy("rebound.example", "127.0.0.2", lookup=names) as here:
        answer = here.get(f"http://rebound.example:{secret.port}/")
        assert status(answer) == 502, "the address of the first answer, which has no such server"
        assert names.asked == ["rebound.example"]
        assert status(here.get(f"http://rebound.example:{secret.port}/")) == 403
        assert secret.requests == []


def test_of_several_addresses_only_those_that_are_allowed_are_tried() -> None:
    names = NameTable(mixed_example="127.0.0.3 127.0.0.4 127.0.0.2")
    with web("127.0.0.3") as secret, local_proxy("mixed.example", "127.0.0.2", "127.0.0.4", lookup=names) as here:
        assert status(here.get(f"http://mixed.example:{secret.port}/")) == 502
        assert secret.requests == []


def test_names_that_are_not_listed_are_not_looked_up() -> None:
    names = NameTable()
    with local_proxy("example.org", lookup=names) as here:
        here.get("http://secret-data.evil.example/")
        assert names.asked == []
        assert status(here.get("http://example.org/")) == 502


def test_a_redirect_to_another_host_is_a_request_of_its_own() -> None:
    with web() as server, web("127.0.0.3") as secret, local_proxy(server.place) as here:
        answer = here.get(f"http://{server.place}/redirect/{secret.place}/")
        location = next(line for line in answer.split(b"\r\n") if line.startswith(b"Location: "))
        assert status(here.get(location.removeprefix(b"Location: ").decode())) == 403
        assert secret.requests == []


def test_the_url_decides_and_the_header_host_is_replaced() -> None:
    with web() as server, local_proxy(server.place) as here:
        here.get(f"http://{server.place}/", "Host: evil.example", "host: other.example")
        assert server.requests[0][2]["Host"] == server.place
        answer = here.answer(f"CONNECT evil.example:443 HTTP/1.1\r\nHost: {server.place}\r\n\r\n".encode())
        assert status(answer) == 403 and b"evil.example" in answer


def test_data_behind_a_request_on_its_connection_is_sent_to_no_host() -> None:
    with web() as server, local_proxy(server.place) as here:
        first = f"POST http://{server.place}/first HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"
        second = "GET http://evil.example/second HTTP/1.1\r\nHost: evil.example\r\n\r\n"
        answer = here.answer((first + second).encode())
        assert answer.count(b"HTTP/1.1") == 1 and answer.endswith(b"this is /first")
        assert [(path, body) for _, path, _, body in server.requests] == [("/first", b"body")]


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked",
        b"Content-Length: 4\r\nContent-Length: 5",
        b"Content-Length: 4, 4",
        b"Content-Length: +4",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding : chunked",
        b"X: a\r\n Transfer-Encoding: chunked",
        b"X: a\nTransfer-Encoding: chunked",
        b"X: a\rTransfer-Encoding: chunked",
        b"no colon",
        b"X: \0",
    ],
)
def test_a_request_whose_end_is_not_clear_is_refused(headers: bytes) -> None:
    with web() as server, local_proxy(server.place) as here:
        request = f"POST http://{server.place}/ HTTP/1.1\r\n".encode() + headers + b"\r\n\r\n0\r\n\r\n"
        assert status(here.answer(request)) == 400
        assert server.requests == []


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1",
        b"GET https://example.org/ HTTP/1.1",
        b"GET http://user:pass@example.org/ HTTP/1.1",
        b"GET http://example.org@evil.example/ HTTP/1.1",
        b"GET http://example.org\\@evil.example/ HTTP/1.1",
        b"GET http:///path HTTP/1.1",
        b"GET http://example.org:0/ HTTP/1.1",
        b"GET http://example.org:99999/ HTTP/1.1",
        b"GET http://example.org/#fragment HTTP/1.1",
        b"GET http://example.org%00.evil/ HTTP/1.1",
        b"GET http://[fe80::1%eth0]/ HTTP/1.1",
        b"GET  http://example.org/ HTTP/1.1",
        b"GET http://example.org/ HTTP/2.0",
        "GET http://ex\u00e4mple.org/ HTTP/1.1".encode(),
        b"CONNECT example.org HTTP/1.1",
        b"CONNECT http://example.org:80 HTTP/1.1",
        b"CONNECT user@example.org:80 HTTP/1.1",
        b"CONNECT example.org:443/path HTTP/1.1",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"",
    ],
)
def test_an_invalid_request_to_a_proxy_is_refused(line: bytes) -> None:
    with local_proxy("example.org", lookup=NameTable()) as here:
        assert status(here.answer(line + b"\r\n\r\n")) == 400


def test_a_body_in_chunks_is_sent_on_up_to_its_end() -> None:
    listener = socket.create_server(("127.0.0.2", 0))
    place = f"127.0.0.2:{listener.getsockname()[1]}"
    got: list[bytes] = []

    def serve() -> None:
        with listener.accept()[0] as server:
            data = b""
            while not data.endswith(b"0\r\nX: y\r\n\r\n"):
                data += server.recv(65536)
            server.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            got.append(data)

    with listener, local_proxy(place) as here:
        thread = threading.Thread(target=serve)
        thread.start()
        body = b"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n"
        head = f"POST http://{place}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        assert here.answer(head + body + b"GET http://evil.example/ HTTP/1.1\r\n\r\n").endswith(b"ok")
        thread.join()
    assert got[0].endswith(b"\r\n\r\n" + body)
    assert b"Connection: close\r\n" in got[0]


def test_headers_without_end_are_refused() -> None:
    with local_proxy("example.org") as here, here.connected() as client:
        client.sendall(b"GET http://example.org/ HTTP/1.1\r\n")
        with_headers = b"X: " + b"y" * 1000 + b"\r\n"
        with_many = with_headers * 100
        client.sendall(with_many)
        assert status(head_of(client)) == 400
    with local_proxy("example.org", lookup=NameTable()) as here:
        assert status(here.answer(b"GET http://example.org/ HTTP/1.1\r\n" + b"X: y\r\n" * 300 + b"\r\n")) == 400


def test_much_data_comes_whole_in_both_directions_at_once() -> None:
    listener = socket.create_server(("127.0.0.2", 0))
    place = f"127.0.0.2:{listener.getsockname()[1]}"
    data = os.urandom(1_000_000) * 8

    def echo() -> None:
        with listener.accept()[0] as server:
            while part := server.recv(65536):
                server.sendall(part)

    with listener, local_proxy(place) as here, here.connected() as client:
        threading.Thread(target=echo, daemon=True).start()
        client.sendall(f"CONNECT {place} HTTP/1.1\r\n\r\n".encode())
        assert status(head_of(client)) == 200
        sending = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)))
        sending.start()
        assert rest_of(client) == data
        sending.join()


def test_a_new_list_closes_connections_to_hosts_that_are_not_listed_any_more() -> None:
    with web() as one, web("127.0.0.3") as two, local_proxy(one.place, two.place) as here:
        with here.connected() as first, here.connected() as second:
            for client, server in ((first, one), (second, two)):
                client.sendall(f"CONNECT {server.place} HTTP/1.1\r\n\r\n".encode())
                assert status(head_of(client)) == 200
            here.set_hosts(two.place)
            assert rest_of(first) == b""
            second.sendall(b"GET /still HTTP/1.1\r\nConnection: close\r\n\r\n")
            assert rest_of(second).endswith(b"this is /still")
        assert status(here.get(f"http://{one.place}/")) == 403
        here.set_hosts()
        assert status(here.get(f"http://{two.place}/")) == 403


def test_a_killed_proxy_is_restarted_at_the_same_port() -> None:
    with web() as server, local_proxy(server.place) as here:
        port = here.proxy.port
        assert here.start() is False
        os.killpg(here.streams[0]._child.pid, signal.SIGKILL)
        here.streams[0]._child.wait()
        while here.proxy.is_up:
            pass
        assert here.start() is True and here.proxy.port == port
        assert status(here.get(f"http://{server.place}/")) == 200


def test_the_program_ends_with_its_input_and_with_the_proxy() -> None:
    with local_proxy("example.org") as here:
        current().soon(here.streams[0].close_write)
        assert here.streams[0]._child.wait(20) == 0
        here.start()
        here.stop()
        assert here.streams[1]._child.wait(20) is not None


def test_a_port_in_use_in_the_target_is_an_error() -> None:
    here = LocalProxy(["example.org"])
    with (
        socket.create_server(("127.0.0.1", here.proxy.port)),
        pytest.raises(EnvironmentStartError, match=f"cannot listen at 127.0.0.1:{here.proxy.port}"),
    ):
        here.start()


def test_programs_find_the_proxy_by_variables() -> None:
    here = LocalProxy(["example.org"])
    url = f"http://127.0.0.1:{here.proxy.port}"
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        assert here.proxy.variables[name] == here.proxy.variables[name.lower()] == url
    assert here.proxy.variables["no_proxy"] == "localhost,127.0.0.1,::1"


def test_a_host_that_keeps_the_connection_open_does_not_hold_up_a_second_request() -> None:
    listener = socket.create_server(("127.0.0.2", 0))
    place = f"127.0.0.2:{listener.getsockname()[1]}"
    with listener, local_proxy(place) as here, here.connected() as client:
        request = f"GET http://{place}/ HTTP/1.1\r\n\r\n".encode()
        client.sendall(request)
        with listener.accept()[0] as server:
            server.recv(65536)
            server.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            assert status(head_of(client)) == 204
            client.sendall(request)
            assert rest_of(client) == b"", "a client sends the request again on another connection"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nX: 1\r\n\r\nbody", b"HTTP/1.1 200 OK\r\nX: 1\r\nConnection: close\r\n\r\nbody"),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=9\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
        (b"no head at all", b"no head at all"),
        (b"x" * 100_000 + b"\r\n\r\n", b"x" * 100_000 + b"\r\n\r\n"),
    ],
    ids=["plain", "interim", "empty", "torn", "long"],
)
def test_a_response_has_the_header_connection_close(sent: bytes, expected: bytes) -> None:
    listener = socket.create_server(("127.0.0.2", 0))
    place = f"127.0.0.2:{listener.getsockname()[1]}"
    with listener, local_proxy(place) as here, here.connected() as client:
        client.sendall(f"GET http://{place}/ HTTP/1.1\r\n\r\n".encode())
        with listener.accept()[0] as server:
            server.recv(65536)
            server.sendall(sent)
        assert rest_of(client) == expected


def test_a_cancelled_start_leaves_no_program() -> None:
    here = LocalProxy(["example.org"])

    async def cancel_the_start(_: object) -> None:
        starting = asyncio.ensure_future(here.proxy.start(here._opened))
        while not here.streams:
            await asyncio.sleep(0.001)
        starting.cancel()
        await asyncio.wait((starting,))

    run(cancel_the_start)
    assert not here.proxy.is_up
    assert here.streams[0]._child.wait(20) is not None
    assert here.start() is True
    here.stop()

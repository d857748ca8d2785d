"""Requests to the network proxy, parsed from arbitrary bytes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from environments.network.request import BadRequestError, ProxyRequest

PARTS = st.sampled_from(
    [
        *(
            b"GET ",
            b"CONNECT ",
            b"http://",
            b"HTTP/1.1",
            b"\r\n",
            b"\n",
            b"\r",
            b" ",
            b":",
            b"Host: a",
            b"@",
            b"[",
            b"]",
        ),
        *(b"example.org", b"127.0.0.1", b"0x7f", b"Content-Length: 5", b"Transfer-Encoding: chunked", b"\0", b"\xff"),
        *(b"/", b"%", b"#", b"?"),
    ]
)


@given(st.one_of(st.binary(max_size=200), st.lists(PARTS, max_size=20).map(b"".join)))
@example(b"GET http://[::1]extra/ HTTP/1.1")
@example(b"CONNECT [::1:80 HTTP/1.1")
def test_any_bytes_are_a_request_or_a_bad_one(text: bytes) -> None:
    with contextlib.suppress(BadRequestError):
        request = ProxyRequest.parse(text + b"\r\n\r\n")
        assert request.host and 1 <= request.port <= 65535
        if not request.is_tunnel:
            assert request.head.endswith(b"\r\n\r\n") and request.head.count(b"\r\nHost: ") == 1
            assert b"\n" not in request.head.replace(b"\r\n", b"") and b"\0" not in request.head


@pytest.mark.parametrize(
    ("target", "path", "host"),
    [
        (b"http://example.org", b"/", b"example.org"),
        (b"HTTP://Example.ORG:80/a?b", b"/a?b", b"example.org"),
        (b"http://example.org:8080?q", b"/?q", b"example.org:8080"),
        (b"http://[2001:DB8::1]:81/", b"/", b"[2001:db8::1]:81"),
    ],
)
def test_a_url_becomes_a_path_and_a_host(target: bytes, path: bytes, host: bytes) -> None:
    request = ProxyRequest.parse(b"GET %s HTTP/1.1\r\nhost: other\r\n\r\n" % target)
    assert request.head == b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (path, host)


def test_headers_for_the_proxy_are_dropped_and_headers_that_frame_the_body_are_kept() -> None:
    headers = (
        b"Connection: X-Mine, Content-Length\r\nX-Mine: 1\r\nProxy-Authorization: secret\r\nContent-Length: 2\r\nA: b"
    )
    request = ProxyRequest.parse(b"POST http://example.org/ HTTP/1.0\r\n" + headers + b"\r\n\r\n")
    expected = b"Host: example.org\r\ncontent-length: 2\r\na: b\r\nConnection: close\r\n\r\n"
    assert (request.head, request.size) == (b"POST / HTTP/1.0\r\n" + expected, 2)

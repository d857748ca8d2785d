"""What a script sends: messages, and lines of them on a connection, through a relay, or in files."""

from __future__ import annotations

import codecs
import contextlib
import json
import re
from unittest import mock

from fuzz.target import Target, cut, with_chance
from rpc import Dispatcher, MessageError, Request, Response, messages
from rpc.collecting import CollectedRequest, CollectedRequests, GarbledError
from rpc.incoming import IncomingLines, RefusedError, TooLargeError
from rpc.relay_lines import NUMBER_DIGITS, BrokenRelayError, RelayedRequest, RelayLines

PREFIX = messages.request_prefix("secret")
LONGEST = 64
MOST_VALUES = 20
NONCE = "0123abcd"


def check_message(data: bytes) -> None:
    for line in (data, data.decode("latin-1").encode("utf-16-le")):
        with mock.patch.multiple(messages, MAX_VALUES=MOST_VALUES, SMALL_MESSAGE_BYTES=0):
            for kind in (Request, Response):
                try:
                    message = kind.decode(line)
                except MessageError:
                    continue
                assert values_in(json.loads(line)) <= MOST_VALUES + 1
        for kind in (Request, Response):
            try:
                message = kind.decode(line)
                again = message.encode()
            except MessageError:  # 1e999 can be read and not be written
                continue
            assert kind.decode(again) == message
            assert again.endswith(b"\n") and again.count(b"\n") == 1


def values_in(value: object) -> int:
    if isinstance(value, list):
        return 1 + sum(map(values_in, value))
    if isinstance(value, dict):
        return 1 + sum(map(values_in, value.values()))
    return 1


def check_connection(data: bytes) -> None:
    chance, data = with_chance(data)
    lines, refused = lines_of(data)
    found: list[bytes] = []
    incoming = IncomingLines(PREFIX, LONGEST)
    try:
        for piece in cut(data, chance):
            found += incoming.feed(piece)
            assert incoming.size <= LONGEST
    except (RefusedError, TooLargeError):
        assert refused
        assert found == lines[: len(found)]
        return
    assert (found, refused) == (lines, False)


def lines_of(data: bytes) -> tuple[list[bytes], bool]:
    """Return the lines before the first that is refused, and whether there is one."""
    lines = []
    for line in re.findall(rb"[^\n]*\n|[^\n]+", data):
        if line[: len(PREFIX)] != PREFIX[: len(line)] or len(line) > LONGEST:
            return lines, True
        if line.endswith(b"\n"):
            lines.append(line)
    return lines, False


def check_relay(data: bytes) -> None:
    chance, data = with_chance(data)
    requests, is_broken = relayed(data)
    found: list[RelayedRequest] = []
    lines = RelayLines(PREFIX)
    try:
        for piece in cut(data, chance):
            found += lines.feed(piece)
    except BrokenRelayError:
        assert is_broken
        assert found == requests[: len(found)]
        return
    assert (found, is_broken) == (requests, False)


def relayed(data: bytes) -> tuple[list[RelayedRequest], bool]:
    """Return the requests before the first thing that is no relay's, and whether there is one."""
    found = []
    while data:
        number = re.match(rb"([0-9]{1,%d}) " % NUMBER_DIGITS, data)
        if not number:
            return found, not re.fullmatch(rb"[0-9]{1,%d}" % NUMBER_DIGITS, data)
        line, end, data = data[number.end() :].partition(b"\n")
        if end:
            line += end
            is_ours = line.startswith(PREFIX)
            found.append(RelayedRequest(number[1], line if is_ours else b"", 0 if is_ours else len(line)))
    return found, False


def check_collected(data: bytes) -> None:
    chance, data = with_chance(data)
    pieces = list(codecs.iterdecode(cut(data, chance), "utf-8", "replace"))
    text = "".join(pieces)
    assert collected([text]) == collected(pieces)
    content = text.replace(NONCE, "~")  # nothing in its place could leave another of what was around it
    whole = f"noise\n{NONCE} 000001\n{content}\n{NONCE} .\n\n{NONCE} 000002\n\n{NONCE} .\n\n{NONCE} end\n"
    found = [CollectedRequest("000001", content.encode()), CollectedRequest("000002", b"")]
    assert collected([whole]) == (found, True)
    assert collected([whole[:-1]]) == (found, False)


def collected(pieces: list[str]) -> tuple[list[CollectedRequest], bool]:
    """Return the requests before the first thing that cannot be, and whether the end was said."""
    requests = CollectedRequests(NONCE)
    found: list[CollectedRequest] = []
    with contextlib.suppress(GarbledError):
        for piece in pieces:
            for request in requests.feed(piece):
                found.append(request)
    return found, requests.ended


def check_dispatch(data: bytes) -> None:
    chance, data = with_chance(data)

    def fail(text: str = "") -> None:
        raise SystemExit(text)

    tools = {"echo": lambda value=None: value, "fail": fail, "odd": lambda *, a, b=1: {a}, "length": len}
    dispatcher = Dispatcher(tools, token="secret", max_calls=2)
    try:
        for line in [data, data, PREFIX + data, *cut(data, chance)[:5]]:
            answer = dispatcher.dispatch(line)
            assert answer.endswith(b"\n") and answer.count(b"\n") == 1
            Response.decode(answer)
    finally:
        dispatcher.close()
    assert dispatcher.calls_made <= 2


_REQUEST = Request("1", "echo", [1, "two"], {"value": [None, True, 0.5]}, "secret").encode()
_JSON = (
    _REQUEST, PREFIX, b'"id":"1",', b'"tool":"echo",', b'"tool":"fail",', b'"tool":"odd",', b'"args":[],',
    b'"args":[1],',
    b'"kwargs":{}}\n', b'"kwargs":{"value":1}}\n', b'"result":', b'{"id":"1",', b'"error":"e"}\n', b"[", b"]", b"{",
    b"}",
    b'"', b'\\"', b"\\\\", b"\\ud800", b",", b":", b"\n", b"1e999", b"-0", b"NaN", b"null", b"[],[],[]",
    b"\xef\xbb\xbf",
    b"9" * 5000, b"[" * 5000, "\u2200".encode(), b"\x22\x00",
)  # fmt: skip
_LINES = (
    PREFIX,
    PREFIX + b'"id":1}\n',
    b"\n",
    b"{",
    b'{"token":"secre',
    b"x" * LONGEST,
    b"1 ",
    b"123456789 ",
    b"0",
    b"12",
)
_FILES = (
    f"\n{NONCE} ".encode(),
    f"\n{NONCE} end\n".encode(),
    f"\n{NONCE} .\n".encode(),
    b"000001\n",
    b".\n",
    b"\n",
    NONCE.encode(),
    b"\0",
    b"\xff",
)

TARGETS = (
    Target(check_message, _JSON),
    Target(check_connection, _LINES),
    Target(check_relay, _LINES),
    Target(check_collected, _FILES),
    Target(check_dispatch, _JSON),
)

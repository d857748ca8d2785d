"""Data from a script: messages, and lines of messages on a connection, through a relay, or in files."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import re
from collections.abc import Callable, Coroutine
from unittest import mock

from code_execution.output import BootMessages
from environments import TerminalError
from fuzz.target import Target, cut, split_seed
from rpc import Dispatcher, MessageError, Request, Response, messages
from rpc.file_queue import CollectedRequest, CollectedRequests, GarbledError
from rpc.messages import IncomingLines, InvalidLineError, TooLargeError
from rpc.relay import BrokenRelayError, Relay

PREFIX = messages.request_prefix("secret")
LONGEST = 64
MOST_VALUES = 20
NONCE = "0123abcd"
WORD, SECRET = b"0123456789abcdef", b"fedcba98765432100123456789abcdef"
HELD = 2 * 4096 + 100
"""The largest number of buffered bytes of an incomplete message, head and body."""


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
    chance, data = split_seed(data)
    lines, refused = lines_of(data)
    found: list[bytes] = []
    incoming = IncomingLines(PREFIX, LONGEST)
    try:
        for piece in cut(data, chance):
            found += incoming.feed(piece)
            assert incoming.size <= LONGEST
    except (InvalidLineError, TooLargeError):
        assert refused
        assert found == lines[: len(found)]
        return
    assert (found, refused) == (lines, False)


def lines_of(data: bytes) -> tuple[list[bytes], bool]:
    """Return the lines before the first refused line, and True if a line is refused."""
    lines = []
    for line in re.findall(rb"[^\n]*\n|[^\n]+", data):
        if line[: len(PREFIX)] != PREFIX[: len(line)] or len(line) > LONGEST:
            return lines, True
        if line.endswith(b"\n"):
            lines.append(line)
    return lines, False


def check_boot_messages(data: bytes) -> None:
    """A script's output, mixed with messages of its boot program and supervisor, means the same in any pieces."""
    chance, data = split_seed(data)
    assert decoded(cut(data, chance)) == decoded([data] if data else [])


def decoded(pieces: list[bytes]) -> tuple[bytes, list[object], bool]:
    """Return the script's output, the messages, and True if the stream was refused in the end."""
    said: list[object] = []
    taken = boot_messages()
    taken.on_begun = lambda: said.append("begun")
    taken.on_end = lambda: said.append(("ended", taken.exit_code, taken.left))
    taken.on_request = lambda *request: said.append(request)
    shown = b""
    try:
        for piece in pieces:
            shown += taken.feed(piece)
            assert len(taken._pending) <= HELD
        shown += taken.feed(b"", final=True)
    except TerminalError:
        return b"", said, True
    return shown, [*said, taken.chosen, taken.failed, taken.none_found, taken.removed], False


def boot_messages() -> BootMessages:
    """Return a decoder with known words instead of random ones."""
    with mock.patch("secrets.token_hex", side_effect=[WORD.decode(), SECRET.decode()]):
        taken = BootMessages()
    taken.has_supervisor = True
    return taken


def check_relay(data: bytes) -> None:
    """Any request is answered once, or the relay is broken. The buffer stays within its limit."""
    chance, data = split_seed(data)
    answered: list[bytes] = []

    def dispatch(line: bytes) -> bytes:
        answered.append(line)
        return b"{}\n"

    def refusal(size: int) -> bytes:
        answered.append(b"refused %d" % size)
        return b"{}\n"

    dispatcher = mock.Mock(prefix=PREFIX, dispatch=dispatch, refusal=refusal)

    async def relay_all() -> None:
        relay, process = Relay(dispatcher), FakeProcess()
        relay.attach(process)
        begun = kept = 0
        with contextlib.suppress(BrokenRelayError):
            for part in cut(data, chance):
                is_last = part.endswith(b"\n")
                relay.receive(chance.choice((7,) * 9 + (8,)), part, is_last != (chance.random() < 0.05))
                kept = 0 if is_last else kept + len(part)
                begun += is_last
                assert relay._line is None or relay._line.size <= kept
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        assert len(answered) == begun == process.answers
        relay.end()

    def spawned(work: Coroutine[object, object, None]) -> object:
        return asyncio.get_running_loop().create_task(work)

    with mock.patch("rpc.relay.spawn", spawned), mock.patch("rpc.relay.in_worker", at_once):
        asyncio.run(relay_all())


class FakeProcess:
    """A script's process that receives answers."""

    answers = 0
    is_flushed = True

    def feed(self, data: bytes) -> None:
        self.answers += data.startswith(b"a ")

    def pause(self) -> None:
        """Continue without a pause."""

    resume = pause


async def at_once(work: Callable[..., bytes], *args: object) -> bytes:
    return work(*args)


def check_collected(data: bytes) -> None:
    chance, data = split_seed(data)
    pieces = list(codecs.iterdecode(cut(data, chance), "utf-8", "replace"))
    text = "".join(pieces)
    assert collected([text]) == collected(pieces)
    content = text.replace(NONCE, "~")  # nothing in its place could leave another of what was around it
    whole = f"noise\n{NONCE} 000001\n{content}\n{NONCE} .\n\n{NONCE} 000002\n\n{NONCE} .\n\n{NONCE} end\n"
    found = [CollectedRequest("000001", content.encode()), CollectedRequest("000002", b"")]
    assert collected([whole]) == (found, True)
    assert collected([whole[:-1]]) == (found, False)


def collected(pieces: list[str]) -> tuple[list[CollectedRequest], bool]:
    """Return the requests before the first invalid entry, and True if the end was reported."""
    requests = CollectedRequests(NONCE)
    found: list[CollectedRequest] = []
    with contextlib.suppress(GarbledError):
        for piece in pieces:
            for request in requests.feed(piece):
                found.append(request)
    return found, requests.ended


def check_dispatch(data: bytes) -> None:
    chance, data = split_seed(data)

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
_SAID = (
    b"\x1e" + WORD + b" ",
    b"\x1e" + WORD + b" +a70d0d0a\n",
    b"\x1e" + WORD + b" 2\n",
    b"\x1e" + WORD + b" failed no\n",
    b"\x1e" + SECRET + b" ",
    b"\x1e" + SECRET + b" r 7 3 1\nab\n",
    b"\x1e" + SECRET + b" r 7 -60 1\n",
    b"\x1e" + SECRET + b" e 0 none\n",
    b"\x1e" + SECRET + b" z\n",
    b"\x1e",
    b"\n",
    b"-",
    b"r 1 2 0\n",
    b"9" * 5000,
    b"x" * 5000,
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
    Target(check_boot_messages, _SAID),
    Target(check_relay, _LINES),
    Target(check_collected, _FILES),
    Target(check_dispatch, _JSON),
)

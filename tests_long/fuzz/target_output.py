"""A target's output: shell frames, Docker's frames, process tables, and the bounded capture of a command's output."""

from __future__ import annotations

import codecs

from environments.docker.stream import FrameDecoder
from environments.errors import TerminalError
from environments.output import BoundedCapture, LiveText
from environments.shell.framing import FrameScanner, Kind, Message
from environments.shell.process_table import ProcessTable
from environments.shell.state import SessionState, StateReports, with_variables_of
from fuzz.target import Target, cut, joined, split_seed

NONCE = "0123abcd"
MARKER = b"\x1e" + NONCE.encode() + b" "


def check_framing(data: bytes) -> None:
    chance, data = split_seed(data)
    whole, in_pieces = FrameScanner(NONCE), FrameScanner(NONCE)
    parts = joined([*whole.feed(data), whole.rest()])
    others = joined([*(part for piece in cut(data, chance) for part in in_pieces.feed(piece)), in_pieces.rest()])
    assert without_empty(parts) == without_empty(others)
    if MARKER not in data:
        assert b"".join(part for part in parts if isinstance(part, bytes)) == data
    for part in parts:
        if isinstance(part, Message):
            assert part.number >= -1
            assert all(isinstance(part.text(index), str) for index in range(len(part.fields)))


def without_empty(parts: list[object]) -> list[object]:
    return [part for part in parts if part != b""]


def check_reports(data: bytes) -> None:
    reports = StateReports(SessionState())
    for part in FrameScanner(NONCE).feed(data):
        if isinstance(part, Message) and part.kind in (Kind.STATE, Kind.PIECE, Kind.PIECES):
            reports.add(part)
            held = reports.last
            with_variables_of(held, held, ["A", "B"])
    text = data.decode("utf-8", "replace")
    held = SessionState(exports=f"declare -x A={text}\n")
    with_variables_of(held, held, ["A"])


def check_processes(data: bytes) -> None:
    try:
        table = ProcessTable.parse(data.decode("utf-8", "replace"))
    except TerminalError:
        return
    table.started_since(1)
    assert table.groups(table.rows) == {row.group for row in table.rows.values()}
    assert table.family(table.marked) <= table.rows.keys()
    assert table.moving <= table.marked
    for pid in table.rows:
        assert pid in table.ancestors(pid)


def check_docker_frames(data: bytes) -> None:
    chance, data = split_seed(data)
    whole, in_pieces = FrameDecoder(), FrameDecoder()
    chunks = [(chunk.channel, chunk.data) for chunk in whole.feed(data)]
    found: list[tuple[object, bytes]] = []
    for piece in cut(data, chance):
        for chunk in in_pieces.feed(piece):
            if found and found[-1][0] is chunk.channel:
                found[-1] = chunk.channel, found[-1][1] + chunk.data
            else:
                found.append((chunk.channel, chunk.data))
    assert found == chunks
    assert sum(len(payload) for _, payload in chunks) <= len(data)


def check_capture(data: bytes) -> None:
    chance, data = split_seed(data)
    limit = chance.randrange(1, 100)
    capture, live = BoundedCapture(limit), LiveText()
    pieces = cut(data, chance)
    for piece in pieces:
        capture.add(piece)
    kept = capture.text()
    if len(data) <= limit:
        assert (kept.text, kept.omitted_bytes) == (data.decode("utf-8", "replace"), 0)
    else:
        head, tail = without_cut_characters(data[: limit // 2], data[limit // 2 - limit :])
        assert kept.text == head.decode("utf-8", "replace") + tail.decode("utf-8", "replace")
        assert kept.omitted_bytes == len(data) - len(head) - len(tail)
        assert kept.omitted_at == len(head.decode("utf-8", "replace"))
    assert "".join(map(live.feed, pieces)) + live.feed(b"", final=True) == data.decode("utf-8", "replace")


def without_cut_characters(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(head)
    continuation = 0
    while continuation < min(3, len(tail)) and tail[continuation] & 0xC0 == 0x80:
        continuation += 1
    return head[: len(head) - len(decoder.getstate()[0])], tail[continuation:]


_MESSAGES = (
    MARKER, *(MARKER + kind.value for kind in Kind), b"\0", b"1\0", b"0\0", b"1\x000\x000\0", b"\x1e", NONCE.encode(),
    b"9" * 5000 + b"\0", b"12\0", b"\n", "\u00b2".encode() + b"\0", b"\xff",
)  # fmt: skip
_REPORTS = (
    *_MESSAGES, b'declare -x A="a"\n', b"export A='a'\n", b"declare -x B\n", b"$'a'" * 20, b"'a'" * 20, b'"', b"\\",
    b"$'",
    MARKER + b"S1\0errexit\0\0declare -x A=1\n\0\x001\0", MARKER + b"P1\x001\0line\0", MARKER + b"T1\0\0\x001\x004\0",
)  # fmt: skip
_ROW = b"2 (sh) S 1 2 " + b"0 " * 16 + b"77\n"
_TABLES = (
    b"1 2\n\n\n\n", b"1 2\n2\n3\n4\n", _ROW, _ROW.replace(b"1 2", b"x y"), b"3 (a) b) S 2 2 " + b"0 " * 16 + b"x\n",
    b"\n",
    b" ", b"2", b"9" * 5000, "\u00b2".encode(), b"(", b")", b"sh: cannot fork",
)  # fmt: skip
_FRAMES = (b"\1\0\0\0\0\0\0\3abc", b"\2\0\0\0\0\0\0\1x", b"\0", b"\1", b"\xff" * 8, b"\1\0\0\0\0\0\0\0")
_TEXTS = (b"x" * 30, "\u00fc".encode(), "\u20ac".encode(), "\U0001f600".encode(), b"\x80", b"\xf0\x9f", b"\xff", b"\n")

TARGETS = (
    Target(check_framing, _MESSAGES),
    Target(check_reports, _REPORTS),
    Target(check_processes, _TABLES),
    Target(check_docker_frames, _FRAMES),
    Target(check_capture, _TEXTS),
)

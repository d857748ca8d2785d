"""Keeping the head and the tail of an output."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from environments.capture import BoundedCapture, LiveText
from environments.shell.output import CommandOutput
from environments.sink import Channel


def _captured(pieces: list[bytes], limit: int) -> BoundedCapture:
    capture = BoundedCapture(limit)
    for piece in pieces:
        capture.add(piece)
    return capture


@settings(max_examples=25)
@given(
    st.lists(st.binary(max_size=40).map(lambda data: bytes(byte & 0x7F for byte in data)), max_size=30),
    st.integers(1, 200),
)
def test_head_and_tail_are_kept_whatever_the_pieces(pieces: list[bytes], limit: int) -> None:
    whole = b"".join(pieces).decode()
    kept = _captured(pieces, limit).text()
    if len(whole) <= limit:
        assert (kept.text, kept.omitted_bytes) == (whole, 0)
    else:
        assert kept.text == whole[: limit // 2] + whole[len(whole) - (limit - limit // 2) :]
        assert kept.omitted_bytes == len(whole) - limit


@settings(max_examples=25)
@given(st.lists(st.integers(0, 200_000), max_size=12), st.integers(1, 400_000))
def test_large_pieces_are_kept_as_small_ones_are(sizes: list[int], limit: int) -> None:
    pieces = [bytes([65 + number % 26]) * size for number, size in enumerate(sizes)]
    whole = b"".join(pieces).decode()
    kept = _captured(pieces, limit).text()
    assert len(kept.text) == min(len(whole), limit)
    assert len(kept.text) + kept.omitted_bytes == len(whole)
    assert whole.startswith(kept.text[: kept.omitted_at])
    assert whole.endswith(kept.text[kept.omitted_at :])


@settings(max_examples=25)
@given(st.lists(st.text(max_size=20), max_size=30), st.integers(16, 200))
def test_a_cut_adds_no_replacement_signs_and_loses_no_count(texts: list[str], limit: int) -> None:
    whole = "".join(texts).encode(errors="surrogatepass").decode(errors="ignore").replace("�", "?")
    data = whole.encode()
    text = _captured([data], limit).text()
    assert "�" not in text.text
    assert len(text.text.encode()) + text.omitted_bytes == len(data)
    assert whole.startswith(text.text[: text.omitted_at])
    assert whole.endswith(text.text[text.omitted_at :])


def test_the_notice_stands_on_a_line_of_its_own_where_bytes_are_missing() -> None:
    assert _captured([b"abcdefgh"], 4).text().with_notice("[cut]") == "ab\n[cut]\ngh"
    assert _captured([b"a\nXXb\n"], 4).text().with_notice("[cut]") == "a\n[cut]\nb\n"
    assert _captured([b"abcd"], 4).text().with_notice("[cut]") == "abcd"


def test_the_callback_gets_whole_characters_and_what_is_left_at_the_end() -> None:
    pieces: list[str] = []
    output = CommandOutput(100, separate=False, on_output=lambda piece, _: pieces.append(piece))
    for byte in "aü".encode() + b"\xc3":
        output.add(Channel.STDOUT, bytes([byte]))
    output.finish()
    assert pieces == ["a", "ü", "�"]


def test_a_frozen_output_takes_nothing_more() -> None:
    output = CommandOutput(100, separate=False)
    output.add(Channel.STDOUT, b"before")
    output.freeze()
    output.add(Channel.STDOUT, b"after")
    assert output.stdout.text().text == "before"


def test_live_text_decodes_across_pieces() -> None:
    live = LiveText()
    assert [live.feed(b"\xf0\x9f"), live.feed(b"\x99\x82"), live.feed(b"", final=True)] == ["", "🙂", ""]

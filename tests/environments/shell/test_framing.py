"""Separation of output and messages in the stream of a shell."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from environments.shell.framing import FrameScanner, Kind, Message

NONCE = "0123456789abcdef"
MARK = b"\x1e" + NONCE.encode() + b" "


def _feed(data: bytes, sizes: list[int]) -> tuple[bytes, list[Message]]:
    scanner, output, messages = FrameScanner(NONCE), b"", []
    position = 0
    for size in [*sizes, len(data)]:
        for part in scanner.feed(data[position : position + size]):
            if isinstance(part, Message):
                messages.append(part)
            else:
                output += part
        position += size
    return output + scanner.rest(), messages


# Pieces of the marker: many examples then begin like a message.
_output = st.lists(st.sampled_from([b"a", b"\n", b"\0", b"\x1e", MARK[:5], MARK[:-1], b"\xff"])).map(b"".join)


@settings(max_examples=25)
@given(_output, _output, st.lists(st.integers(1, 9)))
def test_output_is_exact_and_messages_are_found_however_the_stream_is_cut(
    before: bytes, after: bytes, sizes: list[int]
) -> None:
    message = MARK + b"S7\x00posix\x00\x00declare -x A=\n\x00\x007\x00"
    output, messages = _feed(before + message + after, sizes)
    assert output == before + after
    assert messages == [Message(Kind.STATE, (b"7", b"posix", b"", b"declare -x A=\n", b"", b"7"))]


def test_output_is_not_held_back_without_need() -> None:
    assert FrameScanner(NONCE).feed(b"a line\n") == [b"a line\n"]


def test_a_message_that_is_cut_off_is_no_output() -> None:
    output, messages = _feed(b"x" + MARK + b"E7", [])
    assert (output, messages) == (b"x", [])


def test_a_message_of_unknown_kind_is_output() -> None:
    output, messages = _feed(MARK + b"?" + b"x" * 100, [30])
    assert (output, messages) == (MARK + b"?" + b"x" * 100, [])
    assert FrameScanner(NONCE).feed(MARK + b"?x") == [MARK + b"?", b"x"]


def test_a_large_output_in_many_pieces_is_not_searched_again_and_again() -> None:
    scanner = FrameScanner(NONCE)
    piece = b"\x1e" * 1000
    taken = sum(len(part) for _ in range(2000) for part in scanner.feed(piece) if isinstance(part, bytes))
    assert taken >= 2000 * 1000 - len(MARK)


def test_a_forged_message_with_a_number_of_thousands_of_digits_belongs_to_no_request() -> None:
    digits = b"9" * 5000
    _, messages = _feed(MARK + b"E" + digits + b"\0" + digits + b"\x000\0", [])
    assert [(message.number, message.exit_code) for message in messages] == [(-1, None)]


def test_a_forged_message_without_an_end_is_output_once_it_is_too_long(monkeypatch):
    monkeypatch.setattr("environments.shell.framing.MAX_MESSAGE_BYTES", 1_000_000)
    scanner = FrameScanner(NONCE)
    begun = f"\x1e{NONCE} S".encode()
    given = [begun, *[b"x" * 100_000] * 15]
    parts = [part for data in given for part in scanner.feed(data)]
    assert b"".join(parts) == b"".join(given)
    assert scanner.feed(f"\x1e{NONCE} E1\x000\x000\x00".encode())[0].kind is Kind.END


def test_a_long_message_in_many_pieces_is_put_together_in_linear_time():
    scanner = FrameScanner(NONCE)
    scanner.feed(f"\x1e{NONCE} S1\x00".encode())
    for _ in range(10_000):
        assert scanner.feed(b"x" * 1000) == []
    (message,) = scanner.feed(b"\x00" * 5)
    assert len(message.fields[1]) == 10_000_000

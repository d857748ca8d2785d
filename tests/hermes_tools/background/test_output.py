from __future__ import annotations

from environments.model_view import ModelView
from environments.output import Channel
from environments.redaction import Redactor
from hermes_tools.background.output import KEPT_BYTES, ModelReader, OutputReader, ProcessOutput

SECRET = "sk-0123456789abcdef"


def _fed(*pieces: bytes) -> ProcessOutput:
    output = ProcessOutput()
    for piece in pieces:
        output.add(Channel.STDOUT, piece)
    return output


def test_the_end_is_kept_and_what_is_dropped_is_counted() -> None:
    lines = b"".join(b"%d\n" % n for n in range(100_000))
    kept = _fed(lines[:1000], lines[1000:]).kept()
    assert kept.text == lines[-KEPT_BYTES:].decode()
    assert kept.dropped_bytes == len(lines) - KEPT_BYTES
    assert kept.dropped_lines == lines[:-KEPT_BYTES].count(b"\n")


def test_no_character_is_kept_in_part() -> None:
    for more in range(4):
        output = _fed("\N{GRINNING FACE}".encode() * 60_000, b"x" * more)
        kept = output.kept()
        assert "\ufffd" not in kept.text
        assert kept.dropped_bytes + len(kept.text.encode()) == 240_000 + more
        text, missed = OutputReader(output).next(final=True)
        assert (text, missed) == (kept.text, kept.dropped_bytes)


def test_a_character_that_is_not_complete_comes_with_the_next_read() -> None:
    output = _fed(b"a\xe2\x82")
    reading = OutputReader(output)
    assert reading.next(final=False) == ("a", 0)
    output.add(Channel.STDOUT, b"\xacb")
    assert reading.next(final=False) == ("\N{EURO SIGN}b", 0)


def test_each_reader_has_all_and_each_bit_once() -> None:
    output = _fed(b"one\n")
    first, second = OutputReader(output), OutputReader(output)
    assert first.next(final=False)[0] == "one\n"
    output.add(Channel.STDOUT, b"two\n")
    assert first.next(final=False)[0] == "two\n"
    assert second.next(final=False)[0] == output.read_new(final=False) == "one\ntwo\n"
    assert first.next(final=True)[0] == ""


def test_a_secret_that_two_reads_cut_through_is_not_shown() -> None:
    output = _fed(b"key: sk-01234")
    reading = ModelReader(output, ModelView(Redactor({"KEY": SECRET}), strip=True))
    assert reading.next(final=False) == "key: "
    output.add(Channel.STDOUT, b"56789abcdef\n")
    assert reading.next(final=False) == "[REDACTED:KEY]\n"


def test_a_secret_that_the_edge_cuts_through_is_not_shown() -> None:
    output = _fed(SECRET.encode(), b"x" * (KEPT_BYTES - 10))
    shown = ModelReader(output, ModelView(Redactor({"KEY": SECRET}), strip=True)).next(final=True)
    notice, _, text = shown.partition("\n")
    assert notice == f"[{len(SECRET) - 10} bytes of output came before this and are no longer kept]"
    assert text == "[REDACTED:KEY]" + "x" * (KEPT_BYTES - 10)

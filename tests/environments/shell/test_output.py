"""Output of commands: head and tail, callbacks and sinks."""

from __future__ import annotations

import threading

from hypothesis import given, settings
from hypothesis import strategies as st
from targets.pause_log import PauseLog

from environments.loop import QUEUED, run
from environments.output import BoundedCapture, CallbackDecoder, Channel, LiveText
from environments.shell.output import Delivery, Outcome, Output


def _capture(pieces: list[bytes], limit: int) -> BoundedCapture:
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
    kept = _capture(pieces, limit).text()
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
    kept = _capture(pieces, limit).text()
    assert len(kept.text) == min(len(whole), limit)
    assert len(kept.text) + kept.omitted_bytes == len(whole)
    assert whole.startswith(kept.text[: kept.omitted_at])
    assert whole.endswith(kept.text[kept.omitted_at :])


@settings(max_examples=25)
@given(st.lists(st.text(max_size=20), max_size=30), st.integers(16, 200))
def test_a_cut_adds_no_replacement_signs_and_loses_no_count(texts: list[str], limit: int) -> None:
    whole = "".join(texts).encode(errors="surrogatepass").decode(errors="ignore").replace("�", "?")
    data = whole.encode()
    text = _capture([data], limit).text()
    assert "�" not in text.text
    assert len(text.text.encode()) + text.omitted_bytes == len(data)
    assert whole.startswith(text.text[: text.omitted_at])
    assert whole.endswith(text.text[text.omitted_at :])


def test_the_notice_stands_on_a_line_of_its_own_where_bytes_are_missing() -> None:
    assert _capture([b"abcdefgh"], 4).text().with_notice("[cut]") == "ab\n[cut]\ngh"
    assert _capture([b"a\nXXb\n"], 4).text().with_notice("[cut]") == "a\n[cut]\nb\n"
    assert _capture([b"abcd"], 4).text().with_notice("[cut]") == "abcd"


def test_the_callback_gets_whole_characters_and_the_rest_at_the_end() -> None:
    received: list[tuple[str | bytes, str]] = []
    decoder = CallbackDecoder(lambda piece, channel: received.append((piece, channel)), binary=False)
    for byte in "aü".encode() + b"\xc3":
        decoder(Channel.STDOUT, bytes([byte]))
        decoder(Channel.STDERR, b"e")
    decoder.finish()
    assert [piece for piece, channel in received if channel == "stdout"] == ["a", "ü", "�"]
    assert [piece for piece, channel in received if channel == "stderr"] == ["e"] * 4


def test_a_callback_for_bytes_gets_bytes_as_they_come() -> None:
    received: list[tuple[str | bytes, str]] = []
    decoder = CallbackDecoder(lambda piece, channel: received.append((piece, channel)), binary=True)
    decoder(Channel.STDOUT, b"\xc3")
    decoder.finish()
    assert received == [(b"\xc3", "stdout")]


def test_an_output_keeps_both_channels_or_the_first_alone() -> None:
    for separate, kept in ((True, "err"), (False, None)):
        output = Output(100, separate)
        output.add(Channel.STDOUT, b"out")
        output.add(Channel.STDERR, b"err")
        output.skip(Channel.STDERR, 5)
        result = Outcome(output, 3).result()
        assert (result.output, result.stderr, result.exit_code) == ("out", kept, 3)
        assert result.omitted_bytes == (5 if separate else 0)


def test_messages_of_the_shell_about_an_ended_command_are_left_out() -> None:
    output = Output(100)
    output.add(Channel.STDOUT, b"Killed\n")
    output.is_ending = True
    for data in (b"a\nTerminated\n", b"Killed\n", b"b\n"):
        output.add(Channel.STDOUT, data)
    assert output.stdout.text().text == "Killed\na\nb\n"


class SlowSink:
    """A sink that blocks until the test releases it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may_take = threading.Event()
        self.taken = b""
        self.threads: set[int] = set()
        self._error = error

    def add(self, channel: Channel, data: bytes) -> None:
        self.threads.add(threading.get_ident())
        assert self.may_take.wait(60)
        if self._error:
            raise self._error
        self.taken += data


def test_a_sink_takes_all_in_order_and_the_stream_is_paused_while_it_is_slow() -> None:
    sink, tap, errors = SlowSink(), PauseLog(), []

    async def work(_: object) -> None:
        delivery = Delivery(sink, lambda: errors.append(delivery.error))
        await delivery.flush()
        delivery.stream = tap
        pieces = [bytes([number]) * (QUEUED // 4) for number in range(6)]
        for piece in pieces:
            delivery.add(Channel.STDOUT, piece)
        assert tap.calls == ["pause"]
        sink.may_take.set()
        await delivery.flush()
        assert tap.calls == ["pause", "resume"]
        delivery.add(Channel.STDOUT, b"more")
        await delivery.flush()
        assert sink.taken == b"".join(pieces) + b"more"
        assert threading.get_ident() not in sink.threads

    run(work)
    assert not errors


def test_the_first_error_of_a_sink_is_reported_and_ends_the_delivery() -> None:
    sink, tap, errors = SlowSink(ValueError("full")), PauseLog(), []

    async def work(_: object) -> None:
        delivery = Delivery(sink, lambda: errors.append(delivery.error))
        delivery.stream = tap
        delivery.add(Channel.STDOUT, b"a" * (QUEUED + 1))
        sink.may_take.set()
        await delivery.flush()
        assert tap.calls == ["pause", "resume"], "or the command would wait for ever"
        delivery.add(Channel.STDOUT, b"more")
        await delivery.flush()

    run(work)
    assert [str(error) for error in errors] == ["full"]


def test_live_text_decodes_across_pieces() -> None:
    live = LiveText()
    assert [live.feed(b"\xf0\x9f"), live.feed(b"\x99\x82"), live.feed(b"", final=True)] == ["", "🙂", ""]

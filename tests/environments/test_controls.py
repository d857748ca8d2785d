"""Terminal controls, whole and in pieces."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from environments.controls import HarmlessText, PlainText, harmless, plain

BITS = [
    "\x1b",
    "[",
    "]",
    "0;",
    "31m",
    "m",
    "K",
    "\x07",
    "\\",
    "\x9b",
    "\x9d",
    "\x90",
    "\x9c",
    "P",
    "(",
    "B",
    "\n",
    "a",
    "é",
]
BITS += ["\x18", "\x00", "\x7f", "\t", " ", "52;c;aGk="]
NASTY = st.lists(st.sampled_from([*BITS, "\r", "\b"]), max_size=40)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred\x9bm", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]0;a title\x1b\\text", "text"),
        ("\x9d0;a title\x9ctext", "text"),
        ("\x1b]52;c;c3RvbGVu\x07text", "text"),
        ("\x1b]8;;https://x.test\x1b\\a link\x1b]8;;\x1b\\", "a link"),
        ("\x1bP1$r0m\x1b\\a\x1b_x\x1b\\b\x1b^x\x1b\\c\x1bXx\x1b\\d", "abcd"),
        ("\x1b[2J\x1b[H\x1bc\x1b(B\x1b=text", "text"),
        ("ring\x07 null\x00 del\x7f", "ring null del"),
        ("\x1b]0;never ended\nnext line", "\nnext line"),
        ("N\bNA\bAM\bME\bE", "NAME"),
        ("_\bu_\bn_\bd", "und"),
        ("abc\b\b\bxyz", "xyz"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("50%\r\n", "50%\n"),
        ("50%\r\r\nnext", "50%\nnext"),
        ("done \x1b[K\rnext", "next"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("cut off \x1b[3", "cut off "),
        ("cut off \x1b", "cut off "),
        ("naïve café → ok", "naïve café → ok"),
    ],
)
def test_what_a_model_sees(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m\n", "\x1b[1;31mred\x1b[0m\n"),
        ("\x1b[31mleft on", "\x1b[31mleft on\x1b[0m"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("\x1b]0;title\x07\x1b]52;c;c3RvbGVu\x07text", "text"),
        ("10%\r20%\r\n", "10%\r20%\r\n"),
        ("ring\x07back\b\x00", "ring^Gback^H^@"),
        ("\x9b2Jc1\x84", "c1"),
    ],
)
def test_what_a_persons_terminal_gets(text: str, shown: str) -> None:
    assert harmless(text) == shown


@given(NASTY)
@example(["\x1b", "]", "\x1b", "\\", "a"])
def test_no_control_is_left(bits: list[str]) -> None:
    assert CONTROL.findall(plain("".join(bits))) == []
    pieces = PlainText()
    assert CONTROL.findall("".join(map(pieces.feed, bits)) + pieces.feed("", final=True)) == []
    left = harmless("".join(bits))
    assert CONTROL.findall(re.sub(r"\x1b\[[0-9;:]*m|\x9b[0-9;:]*m|\r", "", left)) == []


@given(NASTY)
def test_pieces_give_what_the_whole_gives(bits: list[str]) -> None:
    for make in (PlainText, HarmlessText):
        pieces, whole = make(), make()
        text = "".join(bits) if make is HarmlessText else "".join(bits).replace("\b", "")
        fed = "".join(pieces.feed(bit if make is HarmlessText else bit.replace("\b", "")) for bit in bits)
        assert fed + pieces.feed("", final=True) == whole.feed(text, final=True)


def test_a_prompt_is_shown_at_once() -> None:
    assert PlainText().feed("\x1b[1mName:\x1b[0m ") == "Name: "
    assert HarmlessText().feed("Name: ") == "Name: "


@pytest.mark.parametrize(
    "text",
    ["\x1b]0;" + "x" * 10_000_000, "\x9d" * 2_000_000 + "\x07", "\x1b[" + "1;" * 5_000_000, "a" * 10**6 + "\b" * 10**6],
    ids=["osc", "c1", "csi", "backspaces"],
)
def test_hostile_output_costs_no_more_than_it_is_long(text: str) -> None:
    plain(text)
    pieces = PlainText()
    for place in range(0, len(text), 65536):
        pieces.feed(text[place : place + 65536])
        assert len(pieces._pending) < 1000

"""Removal of terminal control sequences, whole and in pieces."""

from __future__ import annotations

from environments.model_view import HarmlessText, PlainText, harmless, plain

FOR_A_MODEL = [
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
    ("10%\r50%\r100%\n", "100%\n"),
    ("50%\r\n", "50%\n"),
    ("50%\r\r\nnext", "50%\nnext"),
    ("done \x1b[K\rnext", "next"),
    ("tab\tand\nline", "tab\tand\nline"),
    ("cut off \x1b[3", "cut off "),
    ("cut off \x1b", "cut off "),
    ("\x1b]\x1b\\a", "a"),
    ("naïve café → ok", "naïve café → ok"),
]
WITH_BACKSPACES = [("N\bNA\bAM\bME\bE", "NAME"), ("_\bu_\bn_\bd", "und"), ("abc\b\b\bxyz", "xyz")]
FOR_A_TERMINAL = [
    ("\x1b[1;31mred\x1b[0m\n", "\x1b[1;31mred\x1b[0m\n"),
    ("\x1b[31mleft on", "\x1b[31mleft on\x1b[0m"),
    ("\x1b[2J\x1b[Hcleared", "cleared"),
    ("\x1b]0;title\x07\x1b]52;c;c3RvbGVu\x07text", "text"),
    ("10%\r20%\r\n", "10%\r20%\r\n"),
    ("ring\x07back\b\x00", "ring^Gback^H^@"),
    ("\x9b2Jc1\x84", "c1"),
]


def in_pieces(text: str, make: type[PlainText | HarmlessText]) -> str:
    pieces = make()
    return "".join(map(pieces.feed, text)) + pieces.feed("", final=True)


def test_a_model_gets_plain_text() -> None:
    rows = FOR_A_MODEL + WITH_BACKSPACES
    assert [(text, plain(text)) for text, shown in rows if plain(text) != shown] == []


def test_a_terminal_gets_harmless_text() -> None:
    assert [(text, harmless(text)) for text, shown in FOR_A_TERMINAL if harmless(text) != shown] == []


def test_characters_one_by_one_give_the_same_text_as_the_whole() -> None:
    for text, _ in FOR_A_MODEL + FOR_A_TERMINAL:
        assert in_pieces(text, HarmlessText) == harmless(text), text
        whole = PlainText()
        assert in_pieces(text, PlainText) == whole.feed(text) + whole.feed("", final=True), text


def test_a_prompt_is_shown_at_once() -> None:
    assert PlainText().feed("\x1b[1mName:\x1b[0m ") == "Name: "
    assert HarmlessText().feed("Name: ") == "Name: "


def test_hostile_output_costs_no_more_than_it_is_long() -> None:
    for unit in ("\x1b]0;" + "x" * 1_000_000, "\x9d" * 200_000 + "\x07", "\x1b[" + "1;" * 500_000, "\b" * 100_000):
        plain(unit)
        pieces = PlainText()
        for place in range(0, len(unit), 65536):
            pieces.feed(unit[place : place + 65536])
            assert len(pieces._pending) < 1000
    assert plain("a" * 10**5 + "\b" * 10**5) == "a" * 10**5

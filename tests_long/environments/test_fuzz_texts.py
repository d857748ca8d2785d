"""Any text in any pieces: terminal controls, secrets and YAML. Any fuzzer can drive each `check`."""

from __future__ import annotations

import itertools
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from environments import SettingsError
from environments.model_view import HarmlessText, PlainText, harmless, plain
from environments.redaction import RedactedPieces, Redactor
from environments.sources import read_mapping

BITS = ["\x1b", "[", "]", "0;", "31m", "m", "K", "\x07", "\\", "\x9b", "\x9d", "\x90", "\x9c", "P", "(", "B", "\n"]
BITS += ["a", "é", "\x18", "\x00", "\x7f", "\t", " ", "52;c;aGk=", "\r", "\b"]
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
TWO = {"A": "abcabcabcabd", "B": "cabdxxxxcab", "C": "abcabcabcabdabcabc"}


def check_controls(text: str) -> None:
    """No control is left, and pieces give the same result as the whole."""
    assert CONTROL.findall(plain(text)) == []
    left = harmless(text)
    assert CONTROL.findall(re.sub(r"[\x1b\x9b]\[?[\d;:]*m|\r", "", left)) == []
    one_by_one = PlainText()
    assert CONTROL.findall("".join(map(one_by_one.feed, text)) + one_by_one.feed("", final=True)) == []
    for make, given_text in ((PlainText, text.replace("\b", "")), (HarmlessText, text)):
        pieces, whole = make(), make()
        fed = "".join(map(pieces.feed, given_text)) + pieces.feed("", final=True)
        assert fed == whole.feed(given_text, final=True)


@settings(max_examples=400)
@given(st.lists(st.sampled_from(BITS), max_size=40).map("".join))
@example("\x1b]\x1b\\a")
def test_no_control_is_left_and_pieces_give_what_the_whole_gives(text: str) -> None:
    check_controls(text)


@settings(max_examples=400)
@given(st.text(alphabet="abcdx-", max_size=60), st.lists(st.integers(0, 80), max_size=8), st.integers(0, 60))
def test_pieces_hide_all_and_lose_nothing(around: str, cuts: list[int], place: int) -> None:
    text = around[:place] + TWO["A"] + around[place:]
    ends = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = RedactedPieces(Redactor(TWO))
    shown = "".join(pieces.feed(text[a:b]) for a, b in itertools.pairwise(ends)) + pieces.feed("", final=True)
    assert not any(secret in shown for secret in TWO.values())
    assert shown.count("-") == text.count("-")
    assert "[REDACTED:" in shown


def check_document(text: str) -> None:
    """Nothing but a short SettingsError is raised."""
    try:
        read_mapping(f"ours: {text}", "file").value("ours")
    except SettingsError as error:
        assert len(str(error)) < 400  # noqa: PT017 - what else is raised fails


@settings(max_examples=400)
@given(st.text(alphabet="ab:-[]{}&*!<|>'\"# \n0129", max_size=80))
def test_no_text_is_more_than_a_settings_error(text: str) -> None:
    check_document(text)

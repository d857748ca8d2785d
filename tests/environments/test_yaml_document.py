"""What a document may be, and what it costs at most."""

from __future__ import annotations

import pytest

from environments import SettingsError
from environments.config import read_mapping

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)


def test_a_section_is_read_whatever_the_others_hold() -> None:
    document = read_mapping("ours: {a: 1}\nother: {when: 2020-99-99, x: 1, x: 2}\n", "file")
    assert document.value("ours") == {"a": 1}
    assert document.value("missing") is None


def test_aliases_and_merges_are_followed() -> None:
    document = read_mapping("base: &b {a: 1}\nours: {<<: *b, c: [*b, *b]}\n", "file")
    assert document.value("ours") == {"a": 1, "c": [{"a": 1}, {"a": 1}]}


@pytest.mark.usefixtures("without_collector")
def test_what_is_wrong_or_too_much_is_a_short_error() -> None:
    for text, said in (
        (f"{BOMB}ours: *h", "with its aliases it has more than 50,000 values"),
        ("ours: &a [*a]", "holds itself"),
        ("ours: {x: 1, x: 2}", "the key at line 1, column 14 is there twice"),
        ("ours: 1\nours: 2", "the key ours at line 2, column 7 is there twice"),
        (f"ours: {'[' * 60}{']' * 60}", "more than 50 collections are in each other"),
        (f"ours: {'[' * 1000}", "nested too deeply"),
        ("ours: 2020-99-99", "a value is not what it says to be"),
        ("ours: !!bool maybe", "a value is not what it says to be"),
        ("ours: !!timestamp never", "a value is not what it says to be"),
        ("ours: !!int ''", "a value is not what it says to be"),
        (f"ours: {'9' * 10_000}", "a value is not what it says to be"),
        ("ours: {[1]: 2}", "is not valid YAML"),
        ("ours: !!python/object:os.system x", "is not valid YAML"),
        ("ours: *missing", "is not valid YAML"),
        ("1: 2", "should be text"),
        ("- ours", "not a list"),
        ("just text", "not a text"),
        ("ours: 1\n---\nours: 2", "is not valid YAML"),
        (f"ours: {'x' * 1_000_001}", "longer than 1,000,000 characters"),
    ):
        with pytest.raises(SettingsError, match=f"^file.*{said}") as caught:
            read_mapping(text, "file").value("ours")
        assert len(str(caught.value)) < 300

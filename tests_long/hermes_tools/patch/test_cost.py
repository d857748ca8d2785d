"""A patch takes linear time, also with very similar lines. Each test takes seconds, and took minutes or more."""

from __future__ import annotations

import random

import pytest

from hermes_tools.patch.closest_place import closest_place
from hermes_tools.patch.hunks import HunkError, hunk_edits
from hermes_tools.patch.text_file import TextFile
from hermes_tools.patch.unified_diff import changed_lines, unified_diff
from hermes_tools.patch.v4a import Hunk, HunkLine, PatchFormatError, parse_v4a

EQUAL = ["x"] * 100_000


def hunk(number: int, *lines: str, hints: tuple[str, ...] = ()) -> Hunk:
    return Hunk(number, hints, tuple(HunkLine(line[0], line[1:]) for line in lines), at_end=False)  # type: ignore[arg-type]


def test_the_closest_place_in_a_file_of_equal_lines_is_found() -> None:
    assert "line 20001" in closest_place(EQUAL, ["x"] * 20_000 + ["y"])
    assert "line 1 " in closest_place(["a", "b"] * 50_000, ["b", "a"] * 10_000)


def test_the_closest_line_among_long_ones_that_are_all_alike_is_found() -> None:
    lines = ["ab" * 500 + "a" * (n % 50) for n in range(20_000)]
    assert closest_place(lines, ["ba" * 100_000])


def test_thousands_of_hunks_find_their_places_in_a_file_of_equal_lines() -> None:
    lines = [f"{n // 20}" if n % 20 == 0 else "x" for n in range(100_000)]
    hunks = [hunk(n, f" {n}", *[" x"] * 15, "-x", "+y") for n in range(5000)]
    assert len(hunk_edits(TextFile("\n".join(lines), bytes(99_999)), hunks)) == 5000


@pytest.mark.parametrize("hints", [(), ("b a",)])
def test_hunks_that_are_like_the_file_everywhere_are_refused(hints: tuple[str, ...]) -> None:
    chosen = random.Random(1)
    lines = [chosen.choice("ab") for _ in range(100_000)]
    lines[0] = "b again"
    hunks = [hunk(n, *(f" {line}" for line in lines[n * 10 : n * 10 + 40]), "+y", hints=hints) for n in range(5000)]
    with pytest.raises(HunkError, match=r"like too many others|was not found from"):
        hunk_edits(TextFile("\n".join(lines), bytes(99_999)), hunks)


def anchors_in_anchors(depth: int, own: str) -> list[str]:
    """Return lines with a single unique line, another unique line between that and each end, and so on."""
    lines = [own, "anchor 0"]
    for level in range(depth):
        lines += [f"{own} {level}", f"anchor {level + 1}", f"anchor {level}", f"{own} {level} too"]
    return lines


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (EQUAL, ["x", "y"] * 50_000),
        (["a", "b"] * 50_000, ["b", "c"] * 50_000),
        (["a", "a", "b", "b"] * 400, ["a", "b"] * 800),
        ([f"{n // 900}{'ab'[n % 2]}" for n in range(90_000)], [f"{n // 900}{'aabb'[n % 4]}" for n in range(90_000)]),
        (anchors_in_anchors(30_000, "old"), anchors_in_anchors(30_000, "new")),
    ],
    ids=["equal", "alternating", "alternating in another way", "in many parts", "anchors in anchors"],
)
def test_texts_that_are_hard_to_compare_take_no_minutes(old: list[str], new: list[str]) -> None:
    made: list[str] = []
    at = 0
    for change in changed_lines(old, new):
        made += old[at : change.old_start] + new[change.new_start : change.new_end]
        at = change.old_end
    assert made + old[at:] == new
    unified_diff("a", "a", "\n".join(old), "\n".join(new))


@pytest.mark.parametrize(
    "section", ["*** Add File: a" + " " * 200_000 + "b\n+x\n", "*** Move File:" + " " * 200_000 + "->\n"]
)
def test_a_patch_with_long_runs_of_spaces_is_read_at_once(section: str) -> None:
    try:
        operations = parse_v4a(f"*** Begin Patch\n{section}*** End Patch")
    except PatchFormatError as error:
        assert len(str(error)) < 500  # noqa: PT017
    else:
        assert len(operations) == 1


def test_a_patch_of_many_sections_is_read_at_once() -> None:
    patch_text = "*** Begin Patch\n" + "*** Delete File: a\n" * 200_000 + "*** End Patch"
    assert len(parse_v4a(patch_text)) == 200_000


def test_tens_of_thousands_of_changes_take_no_minutes() -> None:
    old = "".join(f"line {n} {'keep' if n % 3 else 'old'}\n" for n in range(100_000))
    diff = unified_diff("f", "f", old, old.replace("old", "new"))
    assert (diff.lines_added, diff.lines_removed) == (33_334, 33_334)


def test_two_large_texts_with_no_line_alone_take_no_minutes() -> None:
    diff = unified_diff("f", "f", "a\nb\n" * 50_000, "b\nc\n" * 50_000)
    assert diff.lines_added == diff.lines_removed > 0

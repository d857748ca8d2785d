"""Any text is a patch or refused by a PatchFormatError, in linear time. Any fuzzer can drive `check`."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_tools.patch.hunks import HunkError, hunk_edits
from hermes_tools.patch.text_file import TextFile
from hermes_tools.patch.v4a import PatchFormatError, parse_v4a

LINES = st.sampled_from(
    [
        *[
            "*** Begin Patch",
            "*** End Patch",
            "*** End of File",
            "*** Update File: a",
            "*** Add File: b",
            "*** Move to: c",
        ],
        *["*** Delete File: d", "*** Move File: e -> f", "*** Update File:", "@@", "@@ x", "@@ -1,2 +3 @@ x", "", " "],
        *[" x", "-x", "+x", "-y", "+\ud800", "x", "\r", "*** Update File: \t", "*** Move to:"],
    ]
)
FILE = TextFile("x\ny\n\nx\n  x\n", bytes(5))


def check(patch: str) -> None:
    """Only PatchFormatError is raised, and each hunk has a place or a HunkError."""
    with contextlib.suppress(PatchFormatError, HunkError):
        for operation in parse_v4a(patch):
            if edits := hunk_edits(FILE, operation.hunks):
                FILE.edited(edits).to_bytes()


@settings(max_examples=1000)
@given(st.lists(LINES, max_size=15).map("\n".join))
def test_any_lines_are_a_patch_or_refused(body: str) -> None:
    check(f"*** Begin Patch\n{body}\n*** End Patch")


@settings(max_examples=300)
@given(st.text(max_size=60))
def test_any_text_is_a_patch_or_refused(text: str) -> None:
    check(text)
    check(f"*** Begin Patch\n*** Update File: a\n{text}\n*** End Patch")


@settings(max_examples=20)
@given(st.lists(LINES, min_size=1, max_size=4).map("\n".join))
def test_a_patch_of_any_length_is_read_at_once(part: str) -> None:
    check("*** Begin Patch\n" + f"{part}\n" * 3000 + "*** End Patch")

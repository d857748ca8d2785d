"""What the start of a script says to us, among what the script prints."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from code_execution.beginning import Beginning


@given(st.binary(max_size=50), st.binary(max_size=50), st.lists(st.integers(0, 200)))
def test_the_words_of_a_start_are_taken_out_however_they_are_cut(before: bytes, behind: bytes, cuts: list[int]) -> None:
    beginning = Beginning()
    word = beginning.word.encode()
    stream = before + b"\x1e" + word + b" 1\n" + before + b"\x1e" + word + b" +\n" + behind
    shown, last = b"", 0
    for cut in sorted(cut for cut in cuts if cut <= len(stream)):
        shown, last = shown + beginning.feed(stream[last:cut]), cut
    shown += beginning.feed(stream[last:]) + beginning.feed(b"", final=True)
    assert shown == before + before + behind
    assert (beginning.chosen, beginning.begun, beginning.none_found) == (1, True, False)

"""The messages of a script's start and supervisor, between the script's output."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from code_execution.output import LONGEST, BootMessages
from environments.errors import TerminalError

SAID = (
    b"warning\n\x1e{word} 1\n\x1e{word} +6f0d0d0a\nfrom it \x1e no \x1e{word} 2\n message\n"
    b"\x1e{secret} r 7 36 0\n\x1e{secret} z\n"
    b"\x1e{secret} r 7 3 1\nyz\nbetween\x1e{secret} e 3 some\n\x1e{secret} z\nthe end\x1e{secre"
)
SHOWN = b"warning\nfrom it \x1e no \x1e{word} 2\n message\nbetweenthe end\x1e{secre"
EVENTS = ["begun", (7, b"\x1e{secret} z\n", False), (7, b"yz\n", True), (3, "some")]


def messages(*, has_supervisor: bool) -> tuple[BootMessages, list[object]]:
    """Return a parser of messages, and the list of its callbacks' arguments."""
    made, told = BootMessages(), []
    made.has_supervisor = has_supervisor
    made.on_begun = lambda: told.append("begun")
    made.on_request = lambda connection, part, is_last: told.append((connection, mask_words(part, made), is_last))
    made.on_end = lambda: told.append((made.exit_code, made.left))
    return made, told


def with_words(text: bytes, made: BootMessages) -> bytes:
    return text.replace(b"{word}", made.word.encode()).replace(b"{secret}", made.secret.encode())


def mask_words(data: bytes, made: BootMessages) -> bytes:
    return data.replace(made.word.encode(), b"{word}").replace(made.secret.encode(), b"{secret}")


def parse_in_pieces(cuts: tuple[int, ...]) -> tuple[bytes, list[object], list[object]]:
    made, told = messages(has_supervisor=True)
    said = with_words(SAID, made)
    ends = (0, *cuts, len(said))
    shown = b"".join(made.feed(said[begin:end]) for begin, end in pairwise(ends))
    shown += made.feed(b"", final=True)
    return (
        mask_words(shown, made),
        told,
        [made.chosen, made.begun, made.magic, made.removed, made.none_found, made.failed],
    )


def test_messages_mean_the_same_wherever_they_are_cut() -> None:
    size = len(with_words(SAID, BootMessages()))
    expected = SHOWN, EVENTS, [1, True, "6f0d0d0a", True, False, None]
    assert parse_in_pieces(()) == expected
    assert [cuts for cuts in combinations(range(1, size, 3), 2) if parse_in_pieces(cuts) != expected] == []
    assert [cut for cut in range(1, size) if parse_in_pieces((cut,)) != expected] == []
    assert parse_in_pieces(tuple(range(1, size))) == expected


def test_nothing_is_held_back_that_cannot_be_a_message() -> None:
    made, _ = messages(has_supervisor=True)
    assert made.feed(b"text\n\x1e") == b"text\n"
    assert made.feed(b"x") == b"\x1ex"
    assert made.feed(with_words(b"more \x1e{word}", made)[:-3]) == b"more "


@pytest.mark.parametrize("said", [b"\x1e", b"\x1e{word} 1", b"\x1e{word} +6f0d0d0a\nx\x1e{secret} r 1 9 1\nhalf"])
def test_a_message_that_is_cut_off_by_the_end_is_shown(said: bytes) -> None:
    made, told = messages(has_supervisor=True)
    text = with_words(said, made)
    assert (made.feed(text) + made.feed(b"", final=True)).endswith(text.rpartition(b"\n\x1e")[2][-10:])
    assert made.chosen is None and told in ([], ["begun"])


def test_a_script_that_knows_the_word_of_its_start_cannot_forge_messages() -> None:
    for has_supervisor in (True, False):
        made, told = messages(has_supervisor=has_supervisor)
        made.feed(with_words(b"\x1e{word} 0\n\x1e{word} +00\n", made))
        forged = with_words(
            b"\x1e{word} -\n\x1e{word} failed no\n\x1e{word} 5\n\x1e{word} e 0 none\n\x1e{word} z\n", made
        )
        assert made.feed(forged) == forged
        assert (made.chosen, made.none_found, made.failed, made.removed) == (0, False, None, False)
        assert (made.exit_code, told) == (None, ["begun"])


def test_a_supervisors_messages_count_only_after_the_script_has_begun() -> None:
    early = b"\x1e{secret} e 0 none\n\x1e{secret} z\n"
    for has_supervisor, before in ((True, b""), (False, b""), (False, b"\x1e{word} +00\n")):
        made, _ = messages(has_supervisor=has_supervisor)
        made.feed(with_words(before, made))
        assert made.feed(with_words(early, made)) == with_words(early, made)
        assert (made.exit_code, made.removed) == (None, False)


@pytest.mark.parametrize(
    "forged",
    [b"r 1 -5 1\n", b"r 1 0 1\n", b"r 1 4097 1\n", b"r 1\n", b"r a 1 1\n", b"e x none\n", b"e\n", b"x" * LONGEST],
)
def test_an_invalid_message_with_the_supervisors_word_is_an_error(forged: bytes) -> None:
    """A script may read the secret word from the supervisor's memory."""
    made, told = messages(has_supervisor=True)
    made.feed(with_words(b"\x1e{word} +00\n", made))
    with pytest.raises(TerminalError, match="tampered with"):
        made.feed(with_words(b"\x1e{secret} ", made) + forged)
    assert told == ["begun"]


def test_the_starts_error_message_is_kept() -> None:
    made, told = messages(has_supervisor=True)
    assert made.feed(with_words(b"\x1e{word} 0\n\x1e{word} failed [Errno 28] No space\n", made)) == b""
    assert (made.failed, made.begun, told) == ("[Errno 28] No space", False, [])
    made, _ = messages(has_supervisor=True)
    made.feed(with_words(b"\x1e{word} -\n", made))
    assert made.none_found


def test_the_words_of_all_scripts_differ() -> None:
    assert len({word for _ in range(5) for word in (BootMessages().word, BootMessages().secret)}) == 10

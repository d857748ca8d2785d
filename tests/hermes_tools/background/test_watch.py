from __future__ import annotations

from hermes_tools.background.watch import Watch


def _found(patterns: list[str], *pieces: bytes) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []
    watch = Watch(patterns, lambda *match: found.append(match))
    for piece in pieces:
        watch.feed(piece)
    return found


def test_a_text_and_an_expression_are_found_with_their_line() -> None:
    output = b"start\nlistening on port (80)\nError 17: gone\n"
    assert _found(["port (80)", r"^Error \d+:"], output) == [
        ("port (80)", "listening on port (80)", 1),
        (r"^Error \d+:", "Error 17: gone", 1),
    ]


def test_a_text_that_is_no_expression_is_a_text() -> None:
    assert _found(["a)(b", "[x"], b"see a)(b and [x\n") == [
        ("a)(b", "see a)(b and [x", 1),
        ("[x", "see a)(b and [x", 1),
    ]


def test_lines_are_counted_and_not_matches() -> None:
    assert _found(["x"], b"x x\nno\nxx\nx") == [("x", "x x", 3)]


def test_matches_are_the_same_however_output_is_cut() -> None:
    output = "first \N{EURO SIGN}5\nsecond\nlast \N{EURO SIGN}7 and \N{EURO SIGN}8".encode()
    for size in (1, 2, 3, 5, 7):
        pieces = [output[at : at + size] for at in range(0, len(output), size)]
        assert sum(count for _, _, count in _found(["\N{EURO SIGN}."], *pieces)) == 2, size


def test_a_question_without_a_line_end_is_found_once() -> None:
    assert _found(["word:"], b"Pass", b"word: ", b"*", b"*\n", b"again\n") == [("word:", "Password: ", 1)]


def test_terminal_controls_hide_no_match() -> None:
    assert _found(["ready in"], b"\033[32mrea\033[0m", b"dy\033[1m in 5 s\r\n") == [
        ("ready in", "ready in 5 s\n"[:-1], 1)
    ]


def test_a_line_feed_is_no_blank() -> None:
    assert _found([r"\s"], b"one\ntwo\n") == []


def test_a_line_without_end_takes_no_memory() -> None:
    watch = Watch(["end"], lambda *match: None)
    for _ in range(100):
        watch.feed(b"x" * 65536)
    assert len(watch._line) == 4096


def test_an_expression_that_goes_back_and_forth_elsewhere_is_linear() -> None:
    assert _found([r"(a*)*$b"], b"a" * 100_000 + b"\n") == []


def test_a_watch_that_is_full_searches_no_more() -> None:
    found: list[str] = []
    watch = Watch(["a", "b"], lambda pattern, line, count: found.append(pattern), lambda pattern: pattern == "a")
    watch.feed(b"a b\n")
    assert found == ["b"]

from __future__ import annotations

from pathlib import Path

import pytest

from environments import create_environment
from environments.base import BaseEnvironment
from hermes_tools.files.read_file import ReadResult, read_file


def numbered(*lines: tuple[int, str]) -> str:
    return "".join(f"{number:6d}|{text}\n" for number, text in lines)


def test_lines_are_numbered(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\nthree\n")
    assert read_file(env, "a.txt") == ReadResult(
        path="a.txt",
        content=numbered((1, "one"), (2, ""), (3, "three")),
        total_lines=3,
        file_size=11,
        truncated=False,
    )


def test_an_empty_file_and_a_last_line_without_a_newline(env: BaseEnvironment, tmp_path: Path) -> None:
    for text, lines in (("", ()), ("one\ntwo", ((1, "one"), (2, "two")))):
        (tmp_path / "a.txt").write_text(text)
        result = read_file(env, "a.txt")
        assert (result["content"], result["total_lines"], result["truncated"]) == (numbered(*lines), len(lines), False)


def test_the_lines_between_offset_and_limit_are_returned_and_the_next_offset_named(
    env: BaseEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    result = read_file(env, "a.txt", offset=4, limit=2)
    assert result["content"] == numbered((4, "line 4"), (5, "line 5"))
    assert (result["truncated"], result["hint"]) == (True, "lines 4-5 of 10; continue with offset=6")
    assert read_file(env, "a.txt", offset=9, limit=2)["truncated"] is False


def test_an_offset_beyond_the_end_gives_no_lines(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    result = read_file(env, "a.txt", offset=7)
    assert (result["content"], result["total_lines"], result["truncated"]) == ("", 1, False)


def test_an_invalid_offset_limit_or_path_is_a_programming_error(env: BaseEnvironment) -> None:
    for offset, limit in ((0, 1), (1, 0), (-1, 5)):
        with pytest.raises(ValueError, match="count from 1"):
            read_file(env, "a.txt", offset, limit)
    for path in ("", "a\0b"):
        with pytest.raises(ValueError, match="path must be"):
            read_file(env, path)


def test_a_missing_file_names_those_close_to_it(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "settings.py").touch()
    (tmp_path / "unrelated").touch()
    error = read_file(env, "setings.py")["error"]
    assert error == f"no such file: {tmp_path}/setings.py; close to it in {tmp_path}: settings.py"


def test_a_missing_directory_is_named(env: BaseEnvironment, tmp_path: Path) -> None:
    assert f"there is no directory {tmp_path}/none" in read_file(env, "none/a.txt")["error"]


def test_a_binary_file_is_refused(env: BaseEnvironment, tmp_path: Path) -> None:
    for before in (b"", b"text\n" * 5000):
        (tmp_path / "a.bin").write_bytes(before + b"\x7fELF\0\1\2")
        assert "binary file" in read_file(env, "a.bin", offset=before.count(b"\n") + 1)["error"]


def test_bytes_that_are_not_utf8_are_replaced(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("caf\xe9\n".encode("latin-1"))
    assert read_file(env, "latin")["content"] == numbered((1, "caf\ufffd"))


def test_carriage_returns_before_newlines_are_not_shown(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "dos").write_bytes(b"one\r\ntwo\r\n")
    assert read_file(env, "dos")["content"] == numbered((1, "one"), (2, "two"))


def test_separators_other_than_newline_do_not_end_a_line(env: BaseEnvironment, tmp_path: Path) -> None:
    text = "a\x0cb\x1cc\u2028d\x85e"
    (tmp_path / "a.txt").write_text(text + "\n", encoding="utf-8")
    assert read_file(env, "a.txt")["content"] == numbered((1, text))


def test_a_long_line_is_cut_at_a_whole_character(env: BaseEnvironment, tmp_path: Path) -> None:
    for char in ("x", "é", "漢", "😀"):
        text = f"{char * 2000}\n{char * 2001}\n{char * 100_000}\nend\n"
        (tmp_path / "a.txt").write_text(text, encoding="utf-8")
        cut = f"{char * 2000} [line cut after 2000 characters]"
        assert read_file(env, "a.txt")["content"] == numbered((1, char * 2000), (2, cut), (3, cut), (4, "end"))


def test_only_the_lines_wanted_are_sent(tmp_path: Path) -> None:
    (tmp_path / "huge").write_text("".join(f"{n} {'x' * 90}\n" for n in range(1, 50_001)))
    with create_environment("local", cwd=str(tmp_path), max_output_bytes=4096) as env:
        result = read_file(env, "huge", offset=25_000, limit=2)
    assert result["content"] == numbered((25_000, f"25000 {'x' * 90}"), (25_001, f"25001 {'x' * 90}"))
    assert result["total_lines"] == 50_000


def test_lines_beyond_the_output_cap_are_left_for_the_next_call(tmp_path: Path) -> None:
    lines = [f"{n} {'é' * 40}" for n in range(1, 1001)]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    found: list[str] = []
    with create_environment("local", cwd=str(tmp_path), max_output_bytes=20_000) as env:
        while True:
            result = read_file(env, "a.txt", offset=len(found) + 1, limit=1000)
            found += [line.partition("|")[2] for line in result["content"].splitlines()]
            if not result["truncated"]:
                break
            assert result["hint"].endswith(f"offset={len(found) + 1}")
    assert found == lines


def test_names_that_a_shell_would_read_otherwise(env: BaseEnvironment, tmp_path: Path) -> None:
    names = ["-n", "a b", "a'b", 'a"$(touch pwned)', "a\nb", "ü", "*", "~"]
    for name in names:
        (tmp_path / name).write_text("here\n")
        assert read_file(env, name if name != "~" else "./~")["content"] == numbered((1, "here"))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(names)


def test_a_tilde_is_the_home_of_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home dir"))
    (tmp_path / "home dir").mkdir()
    (tmp_path / "home dir" / "a.txt").write_text("here\n")
    with create_environment("local", cwd=str(tmp_path)) as env:
        assert read_file(env, "~/a.txt")["content"] == numbered((1, "here"))
        assert "close to it in ~: a.txt" in read_file(env, "~/b.txt")["error"]


def test_a_relative_path_starts_where_the_session_is(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("here\n")
    env.execute("cd sub")
    assert read_file(env, "a.txt")["content"] == numbered((1, "here"))


def test_plain_text_is_as_it_is_in_the_file(env: BaseEnvironment, tmp_path: Path) -> None:
    for text in ("", "one\r\ntwo", "one\n\n", "x" * 5000 + "\r\n", "line\r\n" * 60_000 + "last"):
        (tmp_path / "a").write_bytes(text.encode())
        assert read_file(env, "a", limit=100_000, numbered=False)["content"] == text
    assert read_file(env, "a", offset=2, limit=1, numbered=False)["content"] == "line\r\n"
    assert read_file(env, "a", offset=60_001, numbered=False)["content"] == "last"

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from environments.base import BaseEnvironment
from hermes_tools.files.write_file import write_file


def test_a_new_file_is_written_with_its_directories(env: BaseEnvironment, tmp_path: Path) -> None:
    assert write_file(env, "a/b/c.txt", "é\n") == {"path": "a/b/c.txt", "bytes_written": 3, "created": True}
    assert (tmp_path / "a/b/c.txt").read_text(encoding="utf-8") == "é\n"


def test_an_existing_file_is_replaced_and_nothing_is_left_beside_it(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a much longer text before\n")
    with (tmp_path / "a.txt").open() as reader:
        assert write_file(env, "a.txt", "new")["created"] is False
        assert reader.read() == "a much longer text before\n", "an open reader keeps the old text"
    assert (tmp_path / "a.txt").read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_the_mode_of_a_file_is_kept(env: BaseEnvironment, tmp_path: Path) -> None:
    for mode in (0o755, 0o600, 0o664):
        (tmp_path / "run.sh").touch()
        (tmp_path / "run.sh").chmod(mode)
        write_file(env, "run.sh", "true\n")
        assert stat.S_IMODE((tmp_path / "run.sh").stat().st_mode) == mode


def test_a_symbolic_link_stays_and_its_target_is_written(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "real").write_text("old")
    (tmp_path / "link").symlink_to("sub/real")
    write_file(env, "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "sub" / "real").read_text() == "new"


def test_a_file_of_crlf_lines_stays_one(env: BaseEnvironment, tmp_path: Path) -> None:
    for content in ("one\ntwo\n", "one\r\ntwo\r\n"):
        (tmp_path / "dos").write_bytes(b"a\r\nb\r\nlast")
        assert write_file(env, "dos", content)["bytes_written"] == 10
        assert (tmp_path / "dos").read_bytes() == b"one\r\ntwo\r\n"
    for before in (b"a\nb\n", b"a\r\nb\n", b"a\r\nb\r", b"a\r", b""):
        (tmp_path / "a.txt").write_bytes(before)
        write_file(env, "a.txt", "one\ntwo\r\n")
        assert (tmp_path / "a.txt").read_bytes() == b"one\ntwo\r\n", "a file with mixed line ends is written as given"


def test_any_text_arrives_as_it_is(env: BaseEnvironment, tmp_path: Path) -> None:
    for content in ("", "no newline", "\0\x01\xff", "'\"$HOME`id`\\n%s\n", "x" * 1_000_000):
        write_file(env, "a b'c", content)
        assert (tmp_path / "a b'c").read_bytes() == content.encode()


def test_a_parent_that_is_a_file_is_refused_with_the_reason(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("file")
    result = write_file(env, "a/b", "x")
    assert result["path"] == "a/b"
    assert result["error"]
    assert (tmp_path / "a").read_text() == "file"


def test_text_that_utf8_cannot_hold_is_a_programming_error(env: BaseEnvironment) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        write_file(env, "a", "\ud800")

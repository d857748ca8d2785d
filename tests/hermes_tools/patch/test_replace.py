from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import pytest

from environments.base import BaseEnvironment
from environments.files import ANY, WriteConditions
from hermes_tools.patch.patch import PatchResult, patch


def test_one_occurrence_is_replaced_and_shown_as_a_diff(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
    result = patch(env, "a.py", "two\n", "2\nand\n")
    assert result == PatchResult(
        diff="--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+and\n three\n",
        replacements=1,
        files_changed=1,
        files_added=0,
        files_deleted=0,
        lines_added=2,
        lines_removed=1,
    )
    assert (tmp_path / "a.py").read_text() == "one\n2\nand\nthree\n"


def test_an_ambiguous_match_is_refused_and_its_lines_named(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 2\nx = 1\n")
    result = patch(env, "a.py", "x = 1", "x = 3")
    assert result["error"].startswith("old_string is in a.py 2 times, at lines 1, 3:")
    assert (tmp_path / "a.py").read_text() == "x = 1\ny = 2\nx = 1\n"
    (tmp_path / "a").write_text("aaa")
    assert "2 times" in patch(env, "a", "aa", "b")["error"], "overlapping occurrences are ambiguous"


def test_replace_all_replaces_every_occurrence(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\naaa x\n")
    assert patch(env, "a", "x", "xx", replace_all=True)["replacements"] == 2
    assert patch(env, "a", "aa", "b", True)["replacements"] == 1
    assert (tmp_path / "a").read_text() == "xx\nba xx\n"


def test_a_missing_match_names_the_closest_line_and_the_difference(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def one():\n    return 1\n\ndef two():\n    return 2\n")
    result = patch(env, "a.py", "def two():\n    return 3\n", "")
    assert result == {
        "error": "old_string was not found in a.py; closest place: "
        "line 5 is '    return 2' where '    return 3' was expected"
    }


def test_a_match_missed_for_its_indentation_is_named(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("if x:\n\treturn 1\n")
    error = patch(env, "a.py", "    return 1", "    return 2")["error"]
    assert r"line 2 is '\treturn 1' where '    return 1' was expected" in error


def test_a_line_like_the_one_missed_is_named(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("alpha\nthe quick brown fox\n")
    assert "line 2, 'the quick brown fox'" in patch(env, "a.py", "the quick brwn fox", "")["error"]
    assert "nothing in the file is like it" in patch(env, "a.py", "0123456789", "")["error"]


def test_nothing_is_close_in_a_file_with_next_to_nothing(env: BaseEnvironment, tmp_path: Path) -> None:
    for text in ("", "\n", "x"):
        (tmp_path / "a").write_text(text)
        assert "was not found" in patch(env, "a", "several\nlines\n", "")["error"]


def test_crlf_line_endings_are_matched_and_kept(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "dos").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    result = patch(env, "dos", "one\ntwo\n", "1\r\n1.5\n2\n")
    assert (tmp_path / "dos").read_bytes() == b"1\r\n1.5\r\n2\r\nthree\r\n"
    assert "\r" not in result["diff"]


def test_mixed_line_endings_stay_where_they_were(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "mixed").write_bytes(b"a\nb\r\nc\nd\r\ne\r")
    patch(env, "mixed", "b\nc", "B\nx\nC")
    assert (tmp_path / "mixed").read_bytes() == b"a\nB\r\nx\r\nC\nd\r\ne\r"
    patch(env, "mixed", "a", "a\na2")
    assert (tmp_path / "mixed").read_bytes().startswith(b"a\na2\nB\r\n")


def test_a_byte_order_mark_and_bytes_that_are_not_utf8_are_kept(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfcaf\xe9\none\n")
    result = patch(env, "a", "one", "two")
    assert (tmp_path / "a").read_bytes() == b"\xef\xbb\xbfcaf\xe9\ntwo\n"
    assert " caf\ufffd\n" in json.loads(json.dumps(result))["diff"]


def test_the_mode_of_a_file_is_kept(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("false\n")
    (tmp_path / "run.sh").chmod(0o750)
    patch(env, "run.sh", "false", "true")
    assert stat.S_IMODE((tmp_path / "run.sh").stat().st_mode) == 0o750


def test_a_missing_newline_at_the_end_stays_missing_and_is_shown(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo")
    result = patch(env, "a", "two", "2")
    assert (tmp_path / "a").read_text() == "one\n2"
    assert result["diff"].endswith("-two\n\\ No newline at end of file\n+2\n\\ No newline at end of file\n")


def test_lines_that_look_like_a_diff_header_are_counted(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("-- x\n")
    result = patch(env, "a", "-- x", "++ y")
    assert (result["lines_added"], result["lines_removed"]) == (1, 1)


def test_a_missing_or_binary_file_or_a_directory_is_an_error(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"x\0y")
    assert "a.bin is a binary file" in patch(env, "a.bin", "x", "z")["error"]
    assert f"close to it in {tmp_path}: a.bin" in patch(env, "b.bin", "x", "z")["error"]
    assert ". is a directory" in patch(env, ".", "x", "z")["error"]


def test_arguments_that_do_not_belong_together_are_programming_errors(env: BaseEnvironment) -> None:
    for arguments, error in (
        ({"path": "a", "old_string": "", "new_string": "x"}, "must not be empty"),
        ({"path": "a", "old_string": "x", "new_string": "x"}, "nothing would change"),
        ({"path": "a", "old_string": "x", "new_string": "y", "patch": "*** Begin"}, "goes with mode='patch'"),
        ({"mode": "patch"}, "takes patch="),
        ({"path": "a", "mode": "patch", "patch": "*** Begin Patch"}, "takes patch="),
        ({"path": "a", "old_string": "x", "new_string": "y", "mode": "v4a"}, "must be 'replace' or 'patch'"),
    ):
        with pytest.raises(ValueError, match=error):
            patch(env, **arguments)


def test_threads_that_patch_one_file_lose_no_change(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"<{n}>\n" for n in range(8)))
    threads = [threading.Thread(target=patch, args=(env, "a", f"<{n}>", f"done {n}")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (tmp_path / "a").read_text() == "".join(f"done {n}\n" for n in range(8))


def test_a_file_that_another_program_changes_meanwhile_is_not_overwritten(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("x\n")
    write = env.files.write

    async def late(path: str, data: bytes, mode: str = "", conditions: WriteConditions = ANY) -> bool:
        (tmp_path / "a").write_text("theirs\n")
        return await write(path, data, mode, conditions)

    monkeypatch.setattr(env.files, "write", late)
    assert "a was changed by another program meanwhile" in patch(env, "a", "x", "y")["error"]
    assert (tmp_path / "a").read_text() == "theirs\n"

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from environments.base import BaseEnvironment
from environments.errors import TerminalError
from environments.files import ANY, WriteConditions
from hermes_tools.patch.patch import PatchResult, patch


@pytest.fixture
def apply(env: BaseEnvironment) -> Callable[[str], PatchResult]:
    def run(body: str) -> PatchResult:
        return patch(env, mode="patch", patch=f"*** Begin Patch\n{body}*** End Patch\n")

    return run


Apply = Callable[[str], PatchResult]


def files_of(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_bytes().decode() for path in root.rglob("*") if path.is_file()}


def test_a_patch_adds_updates_deletes_and_moves(apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\n\ndef run():\n    return 1\n")
    (tmp_path / "old.txt").write_text("gone\n")
    (tmp_path / "from.txt").write_text("moved\n")
    (tmp_path / "from.txt").chmod(0o755)
    result = apply(
        "*** Update File: a.py\n@@ def run():\n-    return 1\n+    return 2\n+\n"
        "*** Add File: new/b.txt\n+first\n+\n+third\n"
        "*** Delete File: old.txt\n"
        "*** Update File: from.txt\n*** Move to: sub/to.txt\n@@\n-moved\n+moved here\n"
    )
    assert files_of(tmp_path) == {
        "a.py": "import os\n\ndef run():\n    return 2\n\n",
        "new/b.txt": "first\n\nthird\n",
        "sub/to.txt": "moved here\n",
    }
    assert stat.S_IMODE((tmp_path / "sub/to.txt").stat().st_mode) == 0o755
    counts = {key: value for key, value in result.items() if key != "diff"}
    assert counts == {
        "files_changed": 2,
        "files_added": 1,
        "files_deleted": 1,
        "lines_added": 6,
        "lines_removed": 3,
    }
    assert "--- /dev/null\n+++ b/new/b.txt\n@@ -0,0 +1,3 @@\n+first\n" in result["diff"]
    assert "--- a/old.txt\n+++ /dev/null\n" in result["diff"]
    assert "rename from from.txt\nrename to sub/to.txt\n--- a/from.txt\n+++ b/sub/to.txt\n" in result["diff"]


def test_a_file_is_moved_without_a_change(apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text\n")
    result = apply("*** Move File: a -> b c\n")
    assert files_of(tmp_path) == {"b c": "text\n"}
    assert (result["diff"], result["files_changed"]) == ("rename from a\nrename to b c\n", 1)


def test_several_hunks_apply_in_order(apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"line {n}\n" for n in range(1, 10)))
    apply(
        "*** Update File: a\n line 1\n-line 2\n+two\n line 3\n\n@@\n line 5\n+five and a half\n line 6\n"
        "-line 7\n@@\n-line 9\n+nine\n"
    )
    assert (tmp_path / "a").read_text().split("\n") == [
        *["line 1", "two", "line 3", "line 4", "line 5", "five and a half", "line 6", "line 8", "nine", ""]
    ]


def test_hints_choose_between_places(apply: Apply, tmp_path: Path) -> None:
    source = "class {name}(Base):\n    def one(self):\n        pass\n\n    def two(self):\n        pass\n\n"
    (tmp_path / "a").write_text("".join(source.format(name=name) for name in "AB"))
    apply(
        "*** Update File: a\n@@ class A\n@@ def two(self):\n-        pass\n+        return 'A2'\n"
        "@@ class B(Base):\n@@     def one(self):\n-        pass\n+        return 'B1'\n"
        "@@ class B(Base):\n     def two(self):\n-        pass\n+        return 'B2'\n"
    )
    lines = (tmp_path / "a").read_text().split("\n")
    assert [lines[n] for n in (2, 5, 9, 12)] == [
        *["        pass", "        return 'A2'", "        return 'B1'", "        return 'B2'"]
    ]


def test_a_hint_of_a_unified_diff_is_taken_for_its_text(apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("def f\nx\ndef g\nx\n")
    apply("*** Update File: a\n@@ -3,2 +3,2 @@ def g\n-x\n+y\n")
    assert (tmp_path / "a").read_text() == "def f\nx\ndef g\ny\n"


def test_lines_are_added_after_a_hint_and_at_the_end(apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("start\nend\n")
    apply("*** Update File: a\n@@ start\n+middle\n@@\n+last\n*** End of File\n")
    assert (tmp_path / "a").read_text() == "start\nmiddle\nend\nlast\n"


def test_end_of_file_chooses_the_last_place(apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\ny\nx\n")
    apply("*** Update File: a\n@@\n-x\n+z\n*** End of File\n")
    assert (tmp_path / "a").read_text() == "x\ny\nz\n"
    assert "not at the end" in apply("*** Update File: a\n@@\n-y\n+z\n*** End of File\n")["error"]


def test_the_end_of_the_file_keeps_its_form(apply: Apply, tmp_path: Path) -> None:
    for before, hunk, after in (
        ("a\nb", "-b\n+c\n", "a\nc"),
        ("a\nb", " b\n+c\n", "a\nb\nc"),
        ("a\nb", "-a\n b\n", "b"),
        ("a\nb", " a\n-b\n", "a\n"),
        ("", "+a\n", "a\n"),
        ("a\n", "-a\n", ""),
    ):
        (tmp_path / "a").write_text(before)
        assert "error" not in apply(f"*** Update File: a\n@@\n{hunk}")
        assert (tmp_path / "a").read_text() == after


def test_line_endings_of_context_and_changed_lines_are_kept(apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\r\nb\nc\r\nd\r\n")
    apply("*** Update File: a\n a\n b\n-c\n+C\n+C2\n d\n")
    assert (tmp_path / "a").read_bytes() == b"a\r\nb\nC\r\nC2\r\nd\r\n"


def test_white_space_at_line_ends_of_context_may_differ_and_stays(apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one  \n\t\nthree\n")
    apply("*** Update File: a\n one\n\n-three\n+3\n")
    assert (tmp_path / "a").read_text() == "one  \n\t\n3\n"


def test_one_file_in_several_sections_is_changed_in_turn(apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    result = apply(
        "*** Update File: a\n-one\n+two\n*** Update File: ./a\n-two\n+three\n"
        "*** Add File: b\n+x\n*** Update File: b\n-x\n+y\n"
    )
    assert files_of(tmp_path) == {"a": "three\n", "b": "y\n"}
    assert (result["files_changed"], result["files_added"]) == (1, 1)
    assert "two" not in result["diff"]


def test_two_files_change_places(apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("A\n")
    (tmp_path / "b").write_text("B\n")
    apply("*** Move File: a -> t\n*** Move File: b -> a\n*** Move File: t -> b\n")
    assert files_of(tmp_path) == {"a": "B\n", "b": "A\n"}


def test_one_part_that_does_not_fit_leaves_all_files_as_they_were(apply: Apply, tmp_path: Path) -> None:
    (tmp_path / "first").write_text("1\n")
    (tmp_path / "a").write_text("x\none\ntwo\nx\n")
    (tmp_path / "bin").write_bytes(b"\0")
    (tmp_path / "sub").mkdir()
    before = files_of(tmp_path)
    for body, message in (
        ("*** Update File: a\n-nine\n+9\n", "a: hunk 1 was not found; closest place: line 2, 'one'"),
        ("*** Update File: a\n-two\n+2\n@@\n-one\n+1\n", "a: hunk 2 was not found from line 4 on, only at line 2"),
        ("*** Update File: a\n-x\n+y\n", "a: hunk 1 fits at several places, lines 1, 4"),
        ("*** Update File: a\n@@ nowhere\n-x\n+y\n", "a: hunk 1: there is no line 'nowhere'"),
        ("*** Update File: a\n+y\n", "a: hunk 1 only adds lines and names no place"),
        ("*** Update File: missing\n-x\n+y\n", "no such file"),
        ("*** Add File: a\n+x\n", "a exists already"),
        ("*** Add File: sub\n+x\n", "sub exists already"),
        ("*** Delete File: missing\n", "no such file"),
        ("*** Move File: a -> bin\n", "bin exists already"),
        ("*** Delete File: a\n*** Update File: a\n-x\n+y\n", "a was deleted or moved earlier in the patch"),
        ("*** Update File: bin\n-x\n+y\n", "bin is a binary file"),
    ):
        result = apply(f"*** Update File: first\n-1\n+2\n*** Add File: new\n+x\n{body}")
        assert list(result) == ["error"]
        assert message in result["error"]
        assert files_of(tmp_path) == before


def test_text_that_is_not_a_patch_is_refused_with_its_line(env: BaseEnvironment) -> None:
    for text, message in (
        ("*** Update File: a\n", "must begin with the line '*** Begin Patch'"),
        ("*** Begin Patch\n*** Delete File: a\n", "must end with the line '*** End Patch'"),
        ("*** Begin Patch\n*** End Patch", "holds no"),
        ("*** Begin Patch\nhello\n*** End Patch", "line 2 of the patch must start a file's section"),
        ("*** Begin Patch\n*** Update File:\n*** End Patch", "line 2 of the patch names no file"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "the update of a changes nothing"),
        ("*** Begin Patch\n*** Update File: a\n x\n*** End Patch", "hunk 1 of a has neither '-' nor '+'"),
        ("*** Begin Patch\n*** Update File: a\n-x\ny\n*** End Patch", "line 4 of the patch must start with ' '"),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "line 3 of the patch must start with '+'"),
        ("*** Begin Patch\n*** Delete File: a\n-x\n*** End Patch", "Delete File takes no lines"),
        ("*** Begin Patch\n*** Move File: a\n*** End Patch", "must read '*** Move File: path -> new path'"),
    ):
        assert message in patch(env, mode="patch", patch=text)["error"]


def test_files_written_before_one_that_fails_are_put_back(
    apply: Apply, env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).write_text(f"{name}\n")
    before = files_of(tmp_path)
    write = env.files.write

    async def full(path: str, data: bytes, mode: str = "", conditions: WriteConditions = ANY) -> bool:
        if data == b"fails\n":
            raise TerminalError("no space left on device")
        return await write(path, data, mode, conditions)

    monkeypatch.setattr(env.files, "write", full)
    result = apply(
        "*** Update File: a\n-a\n+A\n*** Add File: new\n+x\n*** Move File: b -> moved\n*** Delete File: d\n"
        "*** Update File: c\n-c\n+fails\n"
    )
    assert result == {"error": "no space left on device; no file was changed"}
    assert files_of(tmp_path) == before

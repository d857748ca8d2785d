from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_tools.patch.unified_diff import changed_lines, unified_diff

TEXTS = st.lists(st.sampled_from(["a", "b", "", "x", "same", "- y", "+ z"]), max_size=25).map("\n".join)


@settings(max_examples=25)
@given(TEXTS, TEXTS)
def test_the_changes_make_the_old_text_into_the_new(old_text: str, new_text: str) -> None:
    old, new = old_text.split("\n"), new_text.split("\n")
    made: list[str] = []
    at = 0
    for change in changed_lines(old, new):
        assert old[change.old_start : change.old_end] != new[change.new_start : change.new_end]
        made += old[at : change.old_start] + new[change.new_start : change.new_end]
        at = change.old_end
    assert made + old[at:] == new


@settings(max_examples=10)
@given(TEXTS, TEXTS)
def test_git_applies_the_diff(tmp_path_factory, old: str, new: str) -> None:
    root: Path = tmp_path_factory.mktemp("diff")
    (root / "f").write_text(old)
    diff = unified_diff("f", "f", old, new)
    if old != new:
        git = shutil.which("git") or "git"
        subprocess.run([git, "apply", "-"], cwd=root, input=diff.text, text=True, check=True, timeout=30)
    assert (root / "f").read_text() == new

"""Memory and time of a patch on this machine are bounded, for any file and any patch."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from targets.processes import processes_with

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.conformance.check import wait_until
from environments.shell import files as shell_files
from environments.shell.files import ShellFiles
from hermes_tools.patch import staged_files
from hermes_tools.patch.closest_place import closest_place
from hermes_tools.patch.hunks import HunkError, hunk_edits
from hermes_tools.patch.patch import patch
from hermes_tools.patch.text_file import TextFile
from hermes_tools.patch.unified_diff import changed_lines
from hermes_tools.patch.v4a import Hunk, HunkLine


def apply(env: BaseEnvironment, body: str) -> dict[str, object]:
    return dict(patch(env, mode="patch", patch=f"*** Begin Patch\n{body}*** End Patch\n"))


def test_nothing_but_a_regular_file_is_patched(env: BaseEnvironment, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for path in ("/dev/zero", "/dev/full", "pipe", "link", "."):
        for answer in (patch(env, path, "x", "y"), apply(env, f"*** Delete File: {path}\n")):
            assert re.search(r"is (a directory|not a regular file)", str(answer["error"])), answer


def test_a_file_that_is_too_large_is_refused_with_the_bound_before_it_is_read(
    env: BaseEnvironment, tmp_path: Path
) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(2 * 1024**3)
    assert "larger than 10,000,000 bytes, the limit of patch" in patch(env, "a", "x", "y")["error"]


def test_a_file_of_too_many_lines_is_refused_with_the_bound(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("\n" * 600_000)
    assert "a has more than 500,000 lines" in patch(env, "a", "x", "y")["error"]


def test_a_file_beyond_the_bound_is_refused_before_all_of_it_is_read(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 11_000_000)
    assert "larger than 10,000,000 bytes" in patch(env, "a", "x", "y")["error"]


def test_a_replacement_that_would_make_gigabytes_is_refused_before_it_is_made(
    env: BaseEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("x" * 40_000)
    answer = patch(env, "a", "x", "y" * 50_000, replace_all=True)
    assert answer == {"error": "a would have more than 10,000,000 bytes, the limit of patch"}
    assert "more than 500,000 lines" in patch(env, "a", "x", "y\n" * 50, replace_all=True)["error"]


def test_many_large_files_in_one_patch_are_refused_with_the_bound(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_files, "_MAX_TOTAL_BYTES", 1000)
    for name in "abc":
        (tmp_path / name).write_text("x" * 400)
    answer = apply(env, "".join(f"*** Delete File: {name}\n" for name in "abc"))
    assert "more than 1,000 bytes together" in str(answer["error"])
    assert "at most 1,000 are applied" in str(apply(env, "*** Delete File: a\n" * 1001)["error"])


def test_a_diff_of_megabytes_is_cut_with_a_note(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"{n} {'x' * 90}\n" for n in range(45_000)))
    answer = patch(env, "a", "x", "y", replace_all=True)
    assert (answer["replacements"], answer["lines_added"]) == (4_050_000, 45_000)
    assert answer["diff"].endswith("\n[diff cut after 4,000,000 characters]\n")


def test_replacing_many_line_ends_keeps_each_line_end_that_stays(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a,b\r\nc,d\ne")
    patch(env, "a", ",", ",\n", replace_all=True)
    assert (tmp_path / "a").read_bytes() == b"a,\r\nb\r\nc,\r\nd\ne"
    (tmp_path / "a").write_bytes(b"a,b")
    patch(env, "a", ",", ",\n", replace_all=True)
    assert (tmp_path / "a").read_bytes() == b"a,\nb"


def test_a_text_that_comes_millions_of_times_is_ambiguous_at_once(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a" * 9_000_000)
    error = patch(env, "a", "a" * 4_000_000, "b")["error"]
    assert error.startswith("old_string is in a more than 20 times, at lines 1, 1,")


@pytest.fixture
def held_lock(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Another thread in the middle of a patch; a call lets that thread continue."""
    inside, go_on = threading.Event(), threading.Event()
    read = staged_files.StagedFiles.read

    def wait(self: staged_files.StagedFiles, path: str, replacing: tuple[str, str] | None = None) -> TextFile:
        if path == "waits":
            inside.set()
            go_on.wait(60)
        return read(self, path, replacing)

    monkeypatch.setattr(staged_files.StagedFiles, "read", wait)
    thread = threading.Thread(target=patch, args=(env, "waits", "x", "y"))
    thread.start()
    assert inside.wait(30)
    yield go_on.set
    go_on.set()
    thread.join(60)


def test_a_script_that_has_ended_does_not_wait_for_another_patch(
    env: BaseEnvironment, tmp_path: Path, held_lock: Callable[[], None]
) -> None:
    (tmp_path / "a").write_text("x\n")
    scope = CancelScope()
    answers: list[object] = []

    def call() -> None:
        with scope.active():
            answers.append(patch(env, "a", "x", "y"))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    scope.cancel()
    thread.join(30)
    assert answers == [{"error": "the call was interrupted; no file was changed"}]
    held_lock()
    assert wait_until(lambda: "error" not in patch(env, "a", "x", "y"), 60), "the lock is free again"


def test_reading_a_file_that_never_ends_is_left_when_the_script_has_ended(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nap: str
) -> None:
    (tmp_path / "a").write_text("x\n")
    files = env.files
    monkeypatch.setattr(files, "read", lambda path, limit=None: ShellFiles.read(files, path, limit))  # type: ignore[arg-type]
    monkeypatch.setattr(shell_files, "printing", lambda path, limit: f"sleep {nap}")
    scope = CancelScope()
    threading.Thread(target=lambda: (wait_until(lambda: bool(processes_with(nap)), 60), scope.cancel())).start()
    with scope.active():
        assert patch(env, str(tmp_path / "a"), "x", "y") == {"error": "the call was interrupted; no file was changed"}
    monkeypatch.undo()
    assert patch(env, str(tmp_path / "a"), "x", "y")["replacements"] == 1


def test_a_patch_that_is_interrupted_while_it_is_written_is_taken_back(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / name).write_text("x\n")
    scope = CancelScope()
    change = staged_files._Change.do

    async def change_and_cancel(*arguments: Any) -> None:
        await change(*arguments)
        scope.cancel()

    monkeypatch.setattr(staged_files._Change, "do", change_and_cancel)
    with scope.active():
        answer = apply(env, "*** Move File: c -> d\n" + "".join(f"*** Update File: {n}\n-x\n+y\n" for n in "ab"))
    assert answer == {"error": "the call was interrupted; no file was changed"}
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys("abc", "x\n")


def test_the_closest_place_is_the_one_with_most_of_the_lines() -> None:
    lines = ["if a:", "  one", "two", "end", "if a:", "  one", "2", "end"]
    assert closest_place(lines, ["if a:", "one", "2", "fin"]).startswith("closest place: line 6 is '  one'")


def hunk(number: int, *lines: str, hints: tuple[str, ...] = ()) -> Hunk:
    return Hunk(number, hints, tuple(HunkLine(line[0], line[1:]) for line in lines), at_end=False)  # type: ignore[arg-type]


def test_a_hunk_that_fits_at_thousands_of_places_names_some() -> None:
    with pytest.raises(HunkError, match=r"fits at several places, lines 1, 2, .*, 20, \.\.\.: give"):
        hunk_edits(TextFile("x\n" * 1000, bytes(1000)), [hunk(1, *[" x"] * 100, "-x")])


def test_a_comparison_for_a_script_that_has_ended_stops() -> None:
    scope = CancelScope()
    scope.cancel()
    with scope.active(), pytest.raises(Exception, match="interrupted"):
        list(changed_lines(["x"] * 100_000, ["y"]))


def test_a_patch_that_is_too_long_is_refused_with_the_bound(env: BaseEnvironment) -> None:
    for text in ("x" * 10_000_001, "\n" * 500_001):
        assert "at most 10,000,000 characters and 500,000 lines" in patch(env, mode="patch", patch=text)["error"]
        assert "old_string has more than" in patch(env, "a", text, "x")["error"]

"""The boot program's functions without a target."""

from __future__ import annotations

import importlib.util
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from code_execution.boot_program import ProjectModuleFinder, remove, stage


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_staged_files_are_accessible_to_their_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        stage(str(tmp_path / "a"), {"script.py": b"print(1)", "rpc/": b"", "rpc/wake|": b"", "empty": b""})
    finally:
        os.umask(before)
    made = tmp_path / "a"
    assert sorted(path.name for path in made.rglob("*")) == ["empty", "rpc", "script.py", "wake"]
    assert (made / "script.py").read_bytes() == b"print(1)"
    assert (made / "rpc" / "wake").is_fifo()
    modes = {path.name: mode(path) for path in (made, *made.rglob("*"))}
    assert modes == {"a": 0o700, "rpc": 0o700, "wake": 0o600, "script.py": 0o600, "empty": 0o600}


def test_the_scripts_directory_is_made_for_its_user_alone(tmp_path: Path) -> None:
    stage(str(tmp_path / "gone" / "a"), {"script.py": b""})
    assert (mode(tmp_path / "gone"), mode(tmp_path / "gone" / "a")) == (0o700, 0o700)


def test_a_file_that_is_written_in_small_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, bytes(data)[:7]))
    stage(str(tmp_path / "a"), {"script.py": bytes(range(256)) * 4})
    assert (tmp_path / "a" / "script.py").read_bytes() == bytes(range(256)) * 4


def test_without_pipes_the_rest_is_staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "mkfifo", refuse)
    stage(str(tmp_path / "a"), {"rpc/": b"", "rpc/wake|": b"", "script.py": b"1"})
    assert sorted(path.name for path in (tmp_path / "a").rglob("*")) == ["rpc", "script.py"]


@pytest.mark.parametrize("there", ["directory", "link"])
def test_nothing_is_staged_where_something_is_already(tmp_path: Path, there: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    made = tmp_path / "a"
    made.mkdir() if there == "directory" else made.symlink_to(other)
    with pytest.raises(FileExistsError):
        stage(str(made), {"script.py": b""})
    assert list(other.iterdir()) == []


def test_a_removed_directory_is_gone_and_the_targets_of_its_links_stay(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    made = tmp_path / "a"
    (made / "b" / "c").mkdir(parents=True)
    (made / "b" / "file").touch()
    (made / "b" / "directory").symlink_to(kept)
    (made / "link").symlink_to(kept / "file")
    (made / "dangling").symlink_to("nowhere")
    os.mkfifo(made / "pipe")
    remove(str(made))
    assert not made.exists()
    assert [path.name for path in kept.iterdir()] == ["file"]


def test_a_link_in_the_place_of_a_directory_is_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "inner").mkdir(parents=True)
    (tmp_path / "a").symlink_to(kept)
    with pytest.raises(OSError, match="Not a directory"):
        remove(str(tmp_path / "a"))
    assert (kept / "inner").exists()


def test_more_than_can_be_removed_is_an_error_that_can_be_expected(tmp_path: Path) -> None:
    """A directory as deep as a script may make it. Another program then removes it."""
    made = tmp_path / "a"
    made.mkdir()
    place = os.open(made, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    try:
        with pytest.raises((OSError, RecursionError)):  # too many files, or too deep
            remove(str(made))
    finally:
        subprocess.run(["rm", "-rf", made], check=True)


def test_a_project_s_module_of_the_script_s_name_is_found_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, project = tmp_path / "own", tmp_path / "project"
    for place in (own, project):
        place.mkdir()
        (place / "script.py").write_text(f"PLACE = {place.name!r}")
    monkeypatch.setattr(sys, "path", [str(own), str(project)])
    finder = ProjectModuleFinder(f"{own}/script.py")
    found = finder.find_spec("script")
    assert isinstance(found, importlib.machinery.ModuleSpec)
    assert found.origin == str(project / "script.py")
    assert finder.find_spec("other") is None
    assert finder.find_spec("script", ["elsewhere"]) is None
    (project / "script.py").unlink()
    importlib.invalidate_caches()
    assert finder.find_spec("script") is None

"""Another program swaps a directory for a link to a denied directory, in the middle of a write.

In each test, a step of the write itself does the swap, so the two are certain to meet.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from environments import create_environment
from environments.base import BaseEnvironment
from environments.local import LocalEnvironment
from environments.local import files as local_files
from environments.shell.files import ShellFiles
from environments.shell.transfer import Runner
from environments.write_guard import WriteGuard
from hermes_tools.files.write_file import write_file
from hermes_tools.patch.patch import patch


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a denied directory, and with a working directory for the swap."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "settings"))
    for name in (".ssh", "race", "programs"):
        (tmp_path / name).mkdir()
    (tmp_path / "race" / "file").write_text("before\n")
    (tmp_path / "race" / "link").symlink_to("file")
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:{os.environ['PATH']}")
    return tmp_path


def swap(home: Path) -> None:
    (home / "race").rename(home / "moved")
    (home / "race").symlink_to(".ssh")


def check_denied_directory(home: Path) -> None:
    assert (home / "race").is_symlink(), "the swap came during the write"
    assert list((home / ".ssh").iterdir()) == []
    assert [path.name for path in home.rglob(".hermes-*")] == []


@pytest.mark.parametrize("name", ["file", "new", "sub/new"])
def test_this_machines_own_means_write_into_the_directory_that_was_judged(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    judged: list[Sequence[str]] = []

    def judge(folder: int, names: Sequence[str], guard: WriteGuard) -> None:
        original(folder, names, guard)
        judged.append(names)
        if len(judged) == 2:  # the first check is of the given path, before links are followed
            swap(home)

    original = local_files._check_guard
    monkeypatch.setattr(local_files, "_check_guard", judge)
    with create_environment("local", cwd=str(home)) as env:
        assert "error" not in write_file(env, f"race/{name}", "after\n")
    check_denied_directory(home)
    assert (home / "moved" / name).read_text() == "after\n"


def shell_env(home: Path, program: str) -> BaseEnvironment:
    """Return an environment with files through its shell. A wrapped program does the swap before its own work."""
    real, file = shutil.which(program), home / "programs" / program
    assert real
    swapping = f"if [ ! -L {home}/race ]; then /bin/mv {home}/race {home}/moved; /bin/ln -s .ssh {home}/race; fi"
    file.write_text(f'#!/bin/sh\n{swapping}\nexec {real} "$@"\n')
    file.chmod(0o755)
    env = create_environment("local", cwd=str(home))
    files = ShellFiles(Runner(cast("LocalEnvironment", env)), "local")
    files._has_sed = True
    env.__dict__["files"] = files
    return env


@pytest.mark.parametrize(
    ("program", "name", "text"),
    [
        ("mkdir", "sub/new", "after\n"),
        ("mv", "new", "after\n"),
        ("stat", "file", "after"),
        ("mv", "file", "after"),
        ("sed", "file", "after\n"),
    ],
)
def test_a_shell_writes_into_the_directory_that_was_judged(home: Path, program: str, name: str, text: str) -> None:
    with shell_env(home, program) as env:
        assert "error" not in write_file(env, f"race/{name}", text)
    check_denied_directory(home)
    assert (home / "moved" / name).read_text() == text


def test_a_shell_judges_again_behind_a_link(home: Path) -> None:
    with shell_env(home, "readlink") as env:
        assert "is in the setting write_denylist" in write_file(env, "race/link", "after\n")["error"]
    check_denied_directory(home)
    assert (home / "moved" / "file").read_text() == "before\n"


@pytest.mark.parametrize("replace_all", [False, True])
def test_a_patch_changes_the_file_that_was_judged(home: Path, replace_all: bool) -> None:
    with shell_env(home, "sed") as env:
        assert patch(env, "race/file", "before", "after", replace_all)["replacements"] == 1
    check_denied_directory(home)
    assert (home / "moved" / "file").read_text() == "after\n"

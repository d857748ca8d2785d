"""A replacement by the target's shell and a local replacement have the same result."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from environments import create_environment
from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.conformance.check import wait_until
from environments.local import LocalEnvironment
from environments.shell.files import ShellFiles
from environments.shell.transfer import Runner
from hermes_tools.interruption import ToolInterruptedError
from hermes_tools.patch.patch import patch
from hermes_tools.patch.staged_files import StagedFiles

PIECES = ("\\", "\n", "\n", " ", "x", "x", "xy", "&", "/", "'", '"', "$", "é", "\udc80", "\t", "*", "[a]", "a\\\n", "?")
RARE = ("\r\n", "\0", "\r", "\ufeff", "\udcc3")


@pytest.fixture
def shell_env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    """A local environment with files through its shell only, after the detection of programs."""
    with create_environment("local", cwd=str(tmp_path)) as env:
        env.__dict__["files"] = ShellFiles(Runner(cast("LocalEnvironment", env)), "local")
        (tmp_path / "first").write_text("one\n")
        assert patch(env, "first", "one", "two")["replacements"] == 1
        yield env


def test_the_result_and_the_file_are_the_same(shell_env: BaseEnvironment, env: BaseEnvironment, tmp_path: Path) -> None:
    chance, path = random.Random(29), tmp_path / "file"
    replaced = 0
    for number in range(300):
        pieces = (*PIECES, *RARE) if number % 3 == 0 else PIECES
        text = "".join(chance.choices(pieces, k=chance.randrange(1, 60))) + "\n" * (number % 10 != 0)
        begin = chance.randrange(len(text))
        old = text[begin : begin + chance.randrange(1, 12)] if number % 7 else "".join(chance.choices(pieces, k=2))
        new = "".join(chance.choices(pieces, k=chance.randrange(0, 5)))
        if not old or old == new:
            continue
        results = []
        for each in (env, shell_env):
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
            answer = patch(each, str(path), old, new)
            results.append((answer, path.read_bytes()))
            replaced += "replacements" in answer
        assert results[0] == results[1], (text, old, new)
    assert replaced > 100


def test_a_replacement_is_taken_back_when_the_call_is_interrupted_afterwards(
    shell_env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: StagedFiles) -> None:
        assert path.read_text() == "two\n"
        raise ToolInterruptedError("the call was interrupted")

    path = tmp_path / "file"
    path.write_text("one\n")
    monkeypatch.setattr(StagedFiles, "changes", interrupted)
    assert patch(shell_env, "file", "one", "two") == {"error": "the call was interrupted; no file was changed"}
    assert path.read_text() == "one\n"


def test_a_replacement_that_is_interrupted_is_taken_back(
    shell_env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt kills sed after the replacement."""
    programs, path = tmp_path / "programs", tmp_path / "file"
    programs.mkdir()
    (programs / "sed").write_text(f'#!/bin/sh\n{shutil.which("sed")} "$@"; case $1 in -i) sleep 60 ;; esac\n')
    (programs / "sed").chmod(0o755)
    path.write_text("one\n")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    answers: list[object] = []
    scope = CancelScope()
    with create_environment("local", cwd=str(tmp_path)) as env:
        files = ShellFiles(Runner(cast("LocalEnvironment", env)), "local")
        files._has_sed = True
        env.__dict__["files"] = files

        def call() -> None:
            with scope.active():
                answers.append(patch(env, "file", "one", "two"))

        thread = threading.Thread(target=call)
        thread.start()
        wait_until(lambda: path.read_text() == "two\n")
        scope.cancel()
        thread.join()
    assert answers == [{"error": "the call was interrupted; no file was changed"}]
    assert path.read_text() == "one\n"

"""Replacement of files by a target's shell: quickly with `sed`, or as in every POSIX shell."""

from __future__ import annotations

import random
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from targets.local_shells import WAYS

from environments import BaseEnvironment, create_environment
from environments.files import WriteConditionError, WriteConditions, run_on_files
from environments.local import LocalEnvironment
from environments.shell.files import ShellFiles
from environments.shell.transfer import Runner

TEXTS = (
    b"",
    b"\n",
    b"x",
    b"one\ntwo\n",
    b"\n\n\n",
    b" a\\\\tb\\n \\\n$`'\"%s&/\n",
    "é😀\n".encode(),
    b"no newline\nat the end",
)
PIECES = ("\\", "\n", " ", "x", "&", "/", "'", '"', "$", "é", "\r\n", "\t", "}", "q\n", "a\\\n", "\x7f")


@pytest.fixture(params=("bash", *WAYS), ids=lambda way: way if isinstance(way, str) else way.__name__)
def shell_env(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    """Start environments on this machine, with file methods of the shell."""
    if request.param != "bash":
        with request.param(tmp_path) as env:
            yield env
        return
    with create_environment("local", cwd=str(tmp_path)) as env:
        env.__dict__["files"] = ShellFiles(Runner(cast("LocalEnvironment", env)), "local")
        yield env


def test_a_file_is_replaced_by_any_text_and_keeps_its_permissions(shell_env: BaseEnvironment, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before\n")
    for mode in (0o644, 0o751, 0o600):
        path.chmod(mode)
        for text in TEXTS:
            for _ in range(2):
                shell_env.write_bytes(str(path), text)
                assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (text, mode)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_file_is_replaced_by_random_text(shell_env: BaseEnvironment, tmp_path: Path) -> None:
    path, chance = tmp_path / "file", random.Random(29)
    path.write_text("a\nb\n")
    for _ in range(60):
        text = "".join(chance.choices(PIECES, k=chance.randrange(1, 400))) + "\n"
        shell_env.write_bytes(str(path), text.encode())
        assert path.read_bytes() == text.encode()


def test_a_file_of_any_kind_of_text_is_replaced(shell_env: BaseEnvironment, tmp_path: Path) -> None:
    for before in (b"", b"\0\n", b"x" * 5000 + b"\n", b"\xff\n \n", b"no newline"):
        (tmp_path / "file").write_bytes(before)
        for text in (b"new\n", b"newer\n"):
            shell_env.write_bytes(str(tmp_path / "file"), text)
            assert (tmp_path / "file").read_bytes() == text


def test_a_file_that_holds_nothing_but_nuls_is_not_read_to_its_end(shell_env: BaseEnvironment, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(100 << 30)  # a shell needs longer to read it than a write may take
    conditions = WriteConditions(unless_crlf=True)
    assert run_on_files(shell_env, lambda files: files.write("file", b"new\n", conditions=conditions)) is False
    assert (tmp_path / "file").read_bytes() == b"new\n"


def test_data_behind_a_nul_is_a_change_too(shell_env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one\n\0two\n")
    with pytest.raises(WriteConditionError, match="changed"):
        run_on_files(
            shell_env, lambda files: files.write("file", b"x\n", conditions=WriteConditions(expected=b"one\n"))
        )
    assert (tmp_path / "file").read_bytes() == b"one\n\0two\n"

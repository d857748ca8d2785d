"""stat, list_dir, mkdir and remove in odd cases of the operating system."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from environments import BaseEnvironment, TerminalError
from environments.errors import TargetFileNotFoundError, TargetNotADirectoryError


@pytest.fixture
def env(bash_or_sh: BaseEnvironment) -> BaseEnvironment:
    """Start environments on this machine, with its own file methods and with those of a shell."""
    return bash_or_sh


def test_errors_behind_links_name_the_reason(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "through").symlink_to("file/none")
    (tmp_path / "nowhere").symlink_to("none/none")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(TargetNotADirectoryError):
        env.stat(str(tmp_path / "through"))
    with pytest.raises(TargetFileNotFoundError):
        env.read_bytes(str(tmp_path / "nowhere"))
    with pytest.raises(TerminalError, match="symbolic links") as raised:
        env.stat(str(tmp_path / "circle"))
    assert type(raised.value) is TerminalError
    assert not env.exists(str(tmp_path / "circle"))
    assert not env.exists(str(tmp_path / ("x" * 256)))
    with pytest.raises(TerminalError, match="name too long") as raised:
        env.write_bytes(str(tmp_path / ("x" * 256)), b"")
    assert type(raised.value) is TerminalError


def test_dots_in_a_path_are_those_of_the_system(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "far" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/in")
    assert [entry.name for entry in env.list_dir(f"{tmp_path}/link/..")] == ["in"]
    env.get_dir(f"{tmp_path}/link/..", tmp_path / "got")
    env.put_dir(tmp_path / "far", f"{tmp_path}/link/../put")
    assert (tmp_path / "got" / "in").is_dir() and (tmp_path / "far" / "put" / "in").is_dir()
    assert env.stat(f"{tmp_path}/link/.", follow_symlinks=False).is_dir
    for path in ("file/.", "file/.."):
        assert not env.exists(f"{tmp_path}/{path}")
        for act in (env.stat, env.read_bytes, env.list_dir):
            with pytest.raises(TargetNotADirectoryError):
                act(f"{tmp_path}/{path}")
    env.mkdir(f"{tmp_path}/new/.", exist_ok=False)
    assert (tmp_path / "new").is_dir()


def test_a_path_may_be_deep_and_a_path_that_is_too_long_is_refused_before_a_part_is_made(
    env: BaseEnvironment, tmp_path: Path
) -> None:
    deep = f"{tmp_path}/top" + f"/{'d' * 250}" * 12
    env.mkdir(deep)
    env.write_bytes(f"{deep}/file", b"x")
    assert env.read_bytes(f"{deep}/file") == b"x"
    env.remove(f"{tmp_path}/top", recursive=True)
    long = f"{tmp_path}/long" + "/d" * 2100
    for act in (env.mkdir, env.stat, env.read_bytes, lambda path: env.write_bytes(path, b"x")):
        with pytest.raises(TerminalError, match="name too long") as raised:
            act(long)
        assert type(raised.value) is TerminalError
    assert not env.exists(long)
    assert list(tmp_path.glob("*")) == []


def test_neither_a_link_to_nothing_nor_a_pipe_is_opened(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "link").symlink_to("none")
    with pytest.raises(TargetNotADirectoryError):
        env.put_dir(tmp_path / "from", str(tmp_path / "link"))
    os.mkfifo(tmp_path / "pipe")
    assert env.stat(str(tmp_path / "pipe")).kind == "other"
    with pytest.raises(TerminalError, match="not a regular file"):
        env.read_bytes(str(tmp_path / "pipe"), limit=1)


def test_paths_are_the_sessions(env: BaseEnvironment, tmp_path: Path) -> None:
    env.mkdir("sub/~")
    env.execute("cd sub")
    (tmp_path / "sub" / "here").touch()
    assert [entry.path for entry in env.list_dir()] == ["./here", "./~"]
    assert env.stat("./~").is_dir and env.stat("~").is_dir
    assert env.stat("here").name == "here"
    assert env.exists("~/.") and not env.exists("none")


def test_a_mode_is_given_whatever_the_umask(env: BaseEnvironment, tmp_path: Path) -> None:
    env.mkdir(str(tmp_path / "a" / "b"), mode=0o1777)
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o1777
    for mode in (-1, 0o10000):
        with pytest.raises(ValueError, match="mode"):
            env.mkdir(str(tmp_path / "c"), mode=mode)

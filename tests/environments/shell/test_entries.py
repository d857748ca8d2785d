"""Looking at, making and removing entries, and why that cannot be done, where tools and users differ."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.engines import MINIMAL_IMAGE, require_docker, run_as_root

from environments import (
    BaseEnvironment,
    TargetFileNotFoundError,
    TargetNotADirectoryError,
    TargetPermissionError,
    TerminalError,
    create_environment,
)
from environments.conformance import Subject
from environments.conformance.entries import (
    entries_are_listed_and_looked_at,
    what_is_removed_is_no_more_than_was_asked_for,
)
from environments.conformance.file_errors import (
    what_a_user_may_not_do_is_told_by_type,
    what_is_in_a_files_way_is_told_by_type,
)

MANY = 50_000


@pytest.fixture
def env(each_way: BaseEnvironment) -> BaseEnvironment:
    """This machine by several ways."""
    return each_way


@pytest.fixture(scope="module")
def busybox() -> Iterator[BaseEnvironment]:
    """A container with BusyBox alone, whose user is not root."""
    require_docker().close()
    with create_environment("docker", image=MINIMAL_IMAGE, docker_user="1000:1000") as made:
        yield made


@pytest.mark.parametrize(
    "check",
    [
        entries_are_listed_and_looked_at,
        what_is_removed_is_no_more_than_was_asked_for,
        what_is_in_a_files_way_is_told_by_type,
        what_a_user_may_not_do_is_told_by_type,
    ],
    ids=lambda check: check.__name__,
)
def test_busybox_and_a_user_do(busybox: BaseEnvironment, check) -> None:
    check(Subject(make=lambda **_: busybox, _env=busybox))


def test_a_link_to_what_is_not_there_yet_is_followed_from_where_it_is(busybox: BaseEnvironment) -> None:
    links = "ln -s sub/near far && ln -s new sub/near"
    made = busybox.execute_oneshot(f"mkdir -p /tmp/links/sub && cd /tmp/links && {links}")
    assert made.ok, made
    busybox.write_bytes("/tmp/links/far", b"x")
    assert busybox.read_bytes("/tmp/links/sub/new") == b"x"
    assert busybox.stat("/tmp/links/far", follow_symlinks=False).link_target == "sub/near"


def test_many_entries_are_listed_with_no_process_for_each(busybox: BaseEnvironment) -> None:
    made = busybox.execute(f"mkdir /tmp/many && cd /tmp/many && seq {MANY} | xargs touch && ln -s x link", timeout=100)
    assert made.ok, made
    entries = busybox.list_dir("/tmp/many")
    assert len(entries) == MANY + 1
    assert entries[-1].link_target == "x"
    assert {entry.name for entry in entries if entry.is_file} == {str(number) for number in range(1, MANY + 1)}


def test_what_others_own_is_kept(busybox: BaseEnvironment) -> None:
    container = busybox.execute_oneshot("hostname").output.strip()
    run_as_root(container, "echo theirs >/tmp/theirs; chmod 666 /tmp/theirs; chmod 1777 /tmp")
    with pytest.raises(TargetPermissionError):
        busybox.remove("/tmp/theirs")
    with pytest.raises(TargetPermissionError):
        busybox.write_bytes("/tmp/theirs", b"mine")  # it could be written to, but not be replaced in one step
    assert busybox.read_bytes("/tmp/theirs") == b"theirs\n"
    with pytest.raises(TargetPermissionError):
        busybox.remove("/etc/passwd")
    with pytest.raises(TargetPermissionError):
        busybox.mkdir("/new/directory")


def test_a_file_system_that_is_read_only_is_no_question_of_permissions(busybox: BaseEnvironment) -> None:
    if not busybox.execute_oneshot("[ ! -w /sys/kernel ] && grep -q ' /sys sysfs ro' /proc/self/mounts").ok:
        pytest.skip("/sys may be written to")
    with pytest.raises(TerminalError, match="Read-only") as raised:
        busybox.mkdir("/sys/kernel/new")
    assert type(raised.value) is TerminalError


def test_links_are_followed_to_what_is_in_the_way(env: BaseEnvironment, tmp_path: Path) -> None:
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


def test_a_path_may_be_deep_and_what_is_too_long_is_refused_before_a_part_is_made(
    env: BaseEnvironment, tmp_path: Path
) -> None:
    deep = f"{tmp_path}/top" + "/d" * 1500
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


def test_a_directory_is_not_put_through_a_link_to_nothing(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "link").symlink_to("none")
    with pytest.raises(TargetNotADirectoryError):
        env.put_dir(tmp_path / "from", str(tmp_path / "link"))


def test_a_pipe_is_looked_at_and_not_opened(env: BaseEnvironment, tmp_path: Path) -> None:
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

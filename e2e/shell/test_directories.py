"""Directories in containers: unprivileged users, and the tar of BusyBox."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from targets.directory_trees import TIME, describe_tree, make_rich_tree, write_tree
from targets.engines import MINIMAL_IMAGE, PYTHON_IMAGE

from environments import BaseEnvironment, TerminalError

BUSYBOX_PATH = "/tmp/busybox:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Make a small directory."""
    return write_tree(tmp_path / "source", {"file": "text", "sub/file": "more"})


def _container(docker_environment, *, busybox: bool, user: str) -> BaseEnvironment:
    settings = {"docker_user": user} if user else {}
    if not busybox:
        return docker_environment(image=PYTHON_IMAGE, **settings)
    env = docker_environment(image=MINIMAL_IMAGE, docker_env={"PATH": BUSYBOX_PATH}, **settings)
    assert env.execute("mkdir /tmp/busybox && ln -s /usr/bin/busybox /tmp/busybox/tar && tar --help").output
    assert "BusyBox" in env.execute_oneshot("tar --help 2>&1").output
    return env


@pytest.mark.parametrize("user", ["", "1000:1000"], ids=["root", "another user"])
@pytest.mark.parametrize("busybox", [False, True], ids=["GNU", "BusyBox"])
def test_every_tar_transfers_the_same_for_every_user(
    docker_environment, tmp_path: Path, busybox: bool, user: str
) -> None:
    env = _container(docker_environment, busybox=busybox, user=user)
    top = make_rich_tree(tmp_path / "rich")
    want = {name: found for name, found in describe_tree(top).items() if not found[0].startswith("0o12")}
    links = {name: found[2] for name, found in describe_tree(top).items() if name not in want}
    for _ in range(2):  # the second time over read-only files
        env.put_dir(top, "/tmp/new/there")
        env.get_dir("/tmp/new/there", tmp_path / "here", skip_unchanged=True)
        os.utime(tmp_path / "here", (TIME, TIME))
        got = describe_tree(tmp_path / "here")
        assert {name: found for name, found in got.items() if name in want} == want
        assert {name: found[2] for name, found in got.items() if name not in want} == links


@pytest.mark.parametrize("busybox", [False, True], ids=["GNU", "BusyBox"])
def test_no_tar_writes_through_a_link(docker_environment, source: Path, busybox: bool) -> None:
    env = _container(docker_environment, busybox=busybox, user="1000:1000")
    env.execute("mkdir -p /tmp/outside/sub /tmp/there; echo mine >/tmp/outside/file; cd /tmp/there")
    env.execute("ln -s ../outside/file file; ln -s ../outside/sub sub")
    env.put_dir(source, "/tmp/there")
    assert env.execute("cat /tmp/outside/file; ls /tmp/outside/sub; cat file sub/file").output == "mine\ntextmore"


def test_a_directory_without_permission_is_not_reported_as_missing(
    docker_environment, source: Path, tmp_path: Path
) -> None:
    env = docker_environment(docker_user="1000:1000")
    with pytest.raises(TerminalError, match="Permission denied"):
        env.get_dir("/root/dir", tmp_path / "here")
    with pytest.raises(TerminalError, match="Permission denied"):
        env.put_dir(source, "/root/dir")
    env.execute("mkdir -p /tmp/dir/sub; echo x >/tmp/dir/sub/file; chmod 0 /tmp/dir/sub")
    with pytest.raises(TerminalError, match=r"sub.*Permission denied"):
        env.get_dir("/tmp/dir", tmp_path / "here")
    env.put_dir(source, "/tmp")
    assert env.execute("stat -c %a:%u /tmp; cat /tmp/sub/file").output.endswith("1777:0\nmore")

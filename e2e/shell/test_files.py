"""Files of other users and files without permission, for an unprivileged user in containers and over SSH."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from targets.engines import MINIMAL_IMAGE, PYTHON_IMAGE, require_docker, run_as_root
from targets.ssh_server import SSHContainer

from environments import BaseEnvironment, TerminalError, create_environment
from environments.shell.dialect.files import SMALL

SIZES = (5, SMALL + 1, 200_000)
"""Sizes of both protocols: small files are part of the shell text, large files are streamed."""


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def source_of(tmp_path: Path, size: int, mode: int = 0o644) -> Path:
    path = tmp_path / "source"
    path.write_bytes(bytes(size))
    path.chmod(mode)
    return path


@dataclass
class Unprivileged:
    """A target whose user is 1000. The test can also make files as root."""

    env: BaseEnvironment
    run_as_root: Callable[[str], object]


@contextlib.contextmanager
def _docker(image: str) -> Iterator[Unprivileged]:
    require_docker().close()
    with create_environment("docker", image=image, docker_user="1000:1000") as env:
        container = env.execute("hostname").output.strip()
        yield Unprivileged(env, lambda text: run_as_root(container, text))


def docker_bash(_: Path) -> AbstractContextManager[Unprivileged]:
    return _docker(PYTHON_IMAGE)


def docker_minimal(_: Path) -> AbstractContextManager[Unprivileged]:
    return _docker(MINIMAL_IMAGE)


@contextlib.contextmanager
def ssh(folder: Path) -> Iterator[Unprivileged]:
    container = SSHContainer(folder)
    try:
        with create_environment("ssh", **container.settings, user="agent") as env:
            yield Unprivileged(env, container.run)
    finally:
        container.remove()


@pytest.fixture(scope="module", params=(docker_bash, docker_minimal, ssh), ids=lambda make: make.__name__)
def unprivileged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unprivileged]:
    with request.param(tmp_path_factory.mktemp("target")) as target:
        yield target


def test_another_users_file_is_replaced_only_if_it_is_writable(unprivileged: Unprivileged, tmp_path: Path) -> None:
    env, place = unprivileged.env, f"/tmp/{secrets.token_hex(4)}"
    env.execute(f"mkdir -m 777 {place}")
    unprivileged.run_as_root(f"cd {place}; echo theirs >closed; chmod 644 closed; echo theirs >open; chmod 666 open")
    for size in SIZES:
        source = source_of(tmp_path, size)
        with pytest.raises(TerminalError, match="Permission denied"):
            env.write_bytes(f"{place}/closed", bytes(size))
        with pytest.raises(TerminalError, match="Permission denied"):
            env.put_file(source, f"{place}/closed")
        env.write_bytes(f"{place}/open", b"o" * size)
        assert env.read_bytes(f"{place}/open") == b"o" * size
    assert env.execute(f"cat {place}/closed; ls -A {place}").output == "theirs\nclosed\nopen\n"


def test_a_read_only_file_is_replaced_by_its_owner(unprivileged: Unprivileged, tmp_path: Path) -> None:
    env, place = unprivileged.env, f"/tmp/{secrets.token_hex(4)}"
    for size in SIZES:
        source = source_of(tmp_path, size, 0o444)
        env.put_file(source, f"{place}/file")
        env.put_file(source, f"{place}/file")
        env.write_bytes(f"{place}/file", b"n" * size)
        assert env.execute(f"stat -c %a {place}/file; ls -A {place}").output == "444\nfile\n"
        assert env.read_bytes(f"{place}/file") == b"n" * size
        source.unlink()


def test_a_file_without_permission_is_not_reported_as_missing(unprivileged: Unprivileged, tmp_path: Path) -> None:
    env, place = unprivileged.env, f"/tmp/{secrets.token_hex(4)}"
    unprivileged.run_as_root(f"mkdir -m 700 {place}; echo secret >{place}/file; echo secret >{place}.file")
    unprivileged.run_as_root(f"chmod 600 {place}.file")
    for path in (f"{place}/file", f"{place}/none", f"{place}.file"):
        with pytest.raises(TerminalError, match="Permission denied"):
            env.read_bytes(path)
        with pytest.raises(TerminalError, match="Permission denied"):
            env.get_file(path, tmp_path / "back")
        with pytest.raises(TerminalError, match="Permission denied"):
            env.write_bytes(path, b"x")
    assert not (tmp_path / "back").exists()


UNPRIVILEGED_PROGRAM = """
import os, sys, tarfile  # tarfile in advance: a later import would need to read it as this user
from pathlib import Path
from environments.local import LocalEnvironment
from environments import TerminalError, load_settings

os.setgroups([])
os.setgid(65534)
os.setuid(65534)
os.chdir("/")
place = Path(sys.argv[1])
with LocalEnvironment(load_settings("local")) as env:
    try:
        env.write_bytes(str(place / "theirs"), b"x")
    except TerminalError as error:
        assert "Permission denied" in str(error)
    else:
        raise AssertionError("another user's file was replaced")
    env.write_bytes(str(place / "open"), b"mine")
    env.write_bytes(str(place / "mine"), b"x")
    (place / "mine").chmod(0o444)
    env.write_bytes(str(place / "mine"), b"again")
    (place / "source/closed").mkdir(parents=True)
    (place / "source/closed/file").write_text("text")
    (place / "source/closed/file").chmod(0o400)
    (place / "source/closed").chmod(0o555)
    for _ in range(2):
        env.put_dir(place / "source", str(place / "there"))
        env.get_dir(str(place / "source"), place / "here")
    (place / "source/secret").mkdir(mode=0)
    try:
        env.put_dir(place / "source", str(place / "there"))
    except TerminalError as error:
        assert "secret: Permission denied" in str(error), error
    else:
        raise AssertionError("a directory that cannot be read was left out")
"""


def test_the_backend_local_keeps_the_same_rules() -> None:
    with tempfile.TemporaryDirectory(prefix="hermes-test-") as folder:
        place = Path(folder)
        place.chmod(0o777)
        (place / "theirs").write_text("theirs")
        (place / "open").touch()
        (place / "open").chmod(0o666)
        subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED_PROGRAM, place], check=True, env={**os.environ, "HOME": folder}
        )
        assert (place / "theirs").read_text() == "theirs"
        assert (place / "open").read_text() == "mine"
        assert ((place / "mine").read_text(), permissions(place / "mine")) == ("again", 0o444)
        for copy in (place / "there", place / "here"):
            assert permissions(copy / "closed") == 0o555
            assert permissions(copy / "closed" / "file") == 0o400
        assert list(place.rglob(".hermes*")) == []

"""What may be read, written and replaced, on this machine by several ways and as a user who may not do everything."""

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
from targets.local_shells import local, without_bash
from targets.per_command_local import PerCommandLocal
from targets.ssh_server import SSHContainer

from environments import (
    BaseEnvironment,
    TargetIsADirectoryError,
    TargetNotADirectoryError,
    TerminalError,
    create_environment,
)
from environments.shell.files import SMALL

SIZES = (5, SMALL + 1, 200_000)
"""What is small goes another way than what is large."""


@pytest.fixture
def env(each_way: BaseEnvironment) -> BaseEnvironment:
    """This machine by several ways."""
    return each_way


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def source_of(tmp_path: Path, size: int = 5, mode: int = 0o644) -> Path:
    path = tmp_path / "source"
    path.write_bytes(bytes(size))
    path.chmod(mode)
    return path


def parts_in(folder: Path) -> list[str]:
    """What is left of files that were not written to their end."""
    return [path.name for path in folder.rglob(".hermes*")]


# What is no regular file.


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("devices cannot be made here")


def directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("linked", [False, True], ids=["", "behind a link"])
@pytest.mark.parametrize("make", [pipe, device, directory], ids=lambda make: make.__name__)
def test_what_is_no_regular_file_is_not_read_and_not_replaced(
    env: BaseEnvironment, tmp_path: Path, make: Callable[[Path], None], linked: bool
) -> None:
    make(tmp_path / "special")
    kind = stat.S_IFMT((tmp_path / "special").lstat().st_mode)
    path = tmp_path / "link" if linked else tmp_path / "special"
    if linked:
        path.symlink_to("special")
    source, target = source_of(tmp_path), tmp_path / "target"
    there, reason = (TargetIsADirectoryError, "Is a") if make is directory else (TerminalError, "not a regular file")
    here = IsADirectoryError if make is directory else TerminalError
    for act, error in (
        (lambda: env.read_bytes(str(path)), there),
        (lambda: env.get_file(str(path), target), there),
        (lambda: env.put_file(path, str(target)), here),
        *((lambda size=size: env.write_bytes(str(path), bytes(size)), there) for size in SIZES),
        (lambda: env.put_file(source, str(path)), there),
        (lambda: env.get_file(str(source), path), here),
    ):
        with pytest.raises(error) as raised:
            act()
        assert type(raised.value) is error
        assert str(path) in str(raised.value) and reason in str(raised.value)
    assert stat.S_IFMT((tmp_path / "special").lstat().st_mode) == kind
    assert path.is_symlink() == linked
    assert not target.exists()
    assert parts_in(tmp_path) == []


def test_links_in_a_circle_are_an_error(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    for act in (
        lambda: env.read_bytes(str(tmp_path / "link")),
        lambda: env.write_bytes(str(tmp_path / "link"), b"x"),
        lambda: env.get_file(str(source_of(tmp_path)), tmp_path / "link"),
    ):
        with pytest.raises(TerminalError, match="link"):
            act()
    assert parts_in(tmp_path) == []


def test_a_link_to_what_is_not_there_yet_is_written_through(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("new")
    env.write_bytes(str(tmp_path / "link"), b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "new").read_bytes() == b"x"


def test_a_missing_file_is_missing_and_nothing_is_made(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("none")
    for path in (tmp_path / "none", tmp_path / "none" / "none", tmp_path / "link"):
        with pytest.raises(FileNotFoundError, match=path.name):
            env.read_bytes(str(path))
        with pytest.raises(FileNotFoundError, match=path.name):
            env.get_file(str(path), tmp_path / "target")
        with pytest.raises(FileNotFoundError, match=path.name):
            env.put_file(path, str(tmp_path / "target"))
    assert [path.name for path in tmp_path.iterdir() if "target" in path.name] == []


# Names.


@pytest.mark.parametrize("name", ["😀" * 63, "-rf", "two\nlines", "$(touch x) 'y' \"z\"", "~", "*", "end "])
def test_a_file_may_have_any_name(env: BaseEnvironment, tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    for size in SIZES:
        env.write_bytes(path, bytes(size))
        assert env.read_bytes(path) == bytes(size)
    env.put_file(path, f"{path[:-1]}2")
    env.get_file(f"{path[:-1]}2", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == bytes(SIZES[-1])
    assert parts_in(tmp_path) == []


def test_a_path_that_ends_in_a_slash_is_a_directorys(env: BaseEnvironment, tmp_path: Path) -> None:
    source = source_of(tmp_path)
    for path in (f"{tmp_path}/new/", f"{tmp_path}/new//", f"{tmp_path}/new/.", f"{tmp_path}/"):
        for write in (
            *(lambda size=size: env.write_bytes(path, bytes(size)) for size in SIZES),  # noqa: B023
            lambda: env.put_file(source, path),  # noqa: B023
        ):
            with pytest.raises(TargetIsADirectoryError):
                write()
        if not path.endswith("."):
            with pytest.raises(IsADirectoryError):
                env.get_file(str(source), path)
    assert list(tmp_path.iterdir()) == [source]
    for read in (lambda: env.read_bytes(f"{source}/"), lambda: env.get_file(f"{source}/", tmp_path / "back")):
        with pytest.raises(TargetNotADirectoryError):
            read()


# Permissions.


def test_set_user_id_stays_behind(env: BaseEnvironment, tmp_path: Path) -> None:
    for size in SIZES:
        source = source_of(tmp_path, size, 0o7755)
        env.put_file(source, str(tmp_path / "there"))
        env.get_file(str(source), tmp_path / "here")
        env.write_bytes(str(source), bytes(size))
        assert [permissions(path) for path in (tmp_path / "there", tmp_path / "here", source)] == [0o755] * 3


@pytest.mark.parametrize("mode", [0o444, 0o044, 0o000, 0o751])
def test_permissions_go_along_and_are_kept(env: BaseEnvironment, tmp_path: Path, mode: int) -> None:
    for size in SIZES:
        source = source_of(tmp_path, size, mode)
        for _ in range(2):  # the second time over what is not to be written to
            env.put_file(source, str(tmp_path / "there"))
            env.get_file(str(source), tmp_path / "here")
            env.write_bytes(str(tmp_path / "there"), b"x" * size)
            assert [permissions(path) for path in (tmp_path / "there", tmp_path / "here")] == [mode] * 2
            assert (tmp_path / "there").read_bytes() == b"x" * size
        source.unlink()


def test_a_new_file_has_the_usual_permissions(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    for size in SIZES:
        env.write_bytes(str(tmp_path / f"new{size}"), bytes(size))
        assert permissions(tmp_path / f"new{size}") == permissions(tmp_path / "usual")


UNDER_A_UMASK = """
import sys
from pathlib import Path
from targets.plain_local import PlainLocal
from environments import create_environment, load_settings

for name, env in ("local", create_environment("local")), ("without_bash", PlainLocal(load_settings("local"))):
    with env:
        env.write_bytes(f"{sys.argv[1]}/{name}/small", b"x")
        env.write_bytes(f"{sys.argv[1]}/{name}/large", bytes(200_000))
        env.get_file(f"{sys.argv[1]}/{name}/small", f"{sys.argv[1]}/{name}/copy")
"""


def test_the_umask_counts_for_new_files_and_directories(tmp_path: Path) -> None:
    paths = os.pathsep.join(path for path in sys.path if path)
    subprocess.run(
        [sys.executable, "-c", UNDER_A_UMASK, tmp_path],
        umask=0o027,
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
    )
    for name in ("local", "without_bash"):
        assert permissions(tmp_path / name) == 0o750
        assert [permissions(path) for path in (tmp_path / name).iterdir()] == [0o640] * 3


def test_a_file_that_becomes_shorter_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    source = Path("/sys/class/net/lo/mtu")  # which is shorter than it says
    if not source.exists():
        pytest.skip("there is no /sys here")
    (tmp_path / "file").write_text("old")
    with without_bash(tmp_path) as env:
        with pytest.raises(TerminalError, match="became shorter"):
            env.put_file(source, str(tmp_path / "file"))
        assert (tmp_path / "file").read_text() == "old"
        assert parts_in(tmp_path) == []
        assert env.execute("echo still here").output == "still here\n"


# What a command is given to read.


def test_what_a_command_reads_is_private_and_gone(env: BaseEnvironment, tmp_path: Path) -> None:
    look = "stat -Lc %a /proc/self/fd/0; readlink /proc/self/fd/0; cat"
    for run in (env.execute, env.execute_oneshot):
        mode, place, text = run(look, stdin="secret").output.split("\n")
        path = Path(place.removesuffix(" (deleted)"))
        assert text == "secret"
        assert place.endswith(" (deleted)") and not path.exists()
        assert permissions(path.parent) == 0o700
        assert mode == "600" or isinstance(env, PerCommandLocal), "where the service writes it, its directory is"


def test_a_scratch_file_is_private_from_the_beginning(tmp_path: Path) -> None:
    for make in (local, without_bash):
        with make(tmp_path) as env:
            for size in SIZES:
                path = Path(env.scratch_directory(), str(size))
                env.write_scratch(str(path), bytes(size))  # type: ignore[attr-defined]
                assert permissions(path) == 0o600
        assert not path.parent.exists()


# A user who may not do everything.


AS_NOBODY = """
import os, sys, tarfile  # the last is imported when it is needed, and then this user may not read it
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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_this_machine_is_no_exception() -> None:
    with tempfile.TemporaryDirectory(prefix="hermes-test-") as folder:
        place = Path(folder)
        place.chmod(0o777)
        (place / "theirs").write_text("theirs")
        (place / "open").touch()
        (place / "open").chmod(0o666)
        subprocess.run([sys.executable, "-c", AS_NOBODY, place], check=True, env={**os.environ, "HOME": folder})
        assert (place / "theirs").read_text() == "theirs"
        assert (place / "open").read_text() == "mine"
        assert ((place / "mine").read_text(), permissions(place / "mine")) == ("again", 0o444)
        for copy in (place / "there", place / "here"):
            assert permissions(copy / "closed") == 0o555
            assert permissions(copy / "closed" / "file") == 0o400
        assert parts_in(place) == []


@dataclass
class Unprivileged:
    """A target whose user is 1000, in which files of others can be made."""

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


@pytest.fixture(params=(docker_bash, docker_minimal, ssh), ids=lambda make: make.__name__)
def unprivileged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unprivileged]:
    with request.param(tmp_path_factory.mktemp("target")) as target:
        yield target


def test_another_users_file_is_replaced_only_by_who_may_write_to_it(unprivileged: Unprivileged, tmp_path: Path) -> None:
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


def test_ones_own_file_is_replaced_though_it_is_not_to_be_written_to(
    unprivileged: Unprivileged, tmp_path: Path
) -> None:
    env, place = unprivileged.env, f"/tmp/{secrets.token_hex(4)}"
    for size in SIZES:
        source = source_of(tmp_path, size, 0o444)
        env.put_file(source, f"{place}/file")
        env.put_file(source, f"{place}/file")
        env.write_bytes(f"{place}/file", b"n" * size)
        assert env.execute(f"stat -c %a {place}/file; ls -A {place}").output == "444\nfile\n"
        assert env.read_bytes(f"{place}/file") == b"n" * size
        source.unlink()


def test_what_is_out_of_reach_is_not_taken_for_missing(unprivileged: Unprivileged, tmp_path: Path) -> None:
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

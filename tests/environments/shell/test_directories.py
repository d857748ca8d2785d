"""Whole directories, there and back, on this machine by several ways; and with a tar that is not to be trusted."""

from __future__ import annotations

import io
import os
import shutil
import socket
import stat
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from targets.engines import MINIMAL_IMAGE, PYTHON_IMAGE
from targets.local_shells import WAYS
from targets.plain_local import PlainLocal

from environments import BaseEnvironment, TargetNotADirectoryError, TerminalError, load_settings
from environments.shell import directories

TIME = 1_000_000_000
"""Seconds that the times of files begin at."""
USUAL_TIME = 500_000_000
BUSYBOX_PATH = "/tmp/busybox:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Described = dict[bytes, tuple[object, ...]]


@pytest.fixture
def env(each_way: BaseEnvironment) -> BaseEnvironment:
    """This machine by several ways."""
    return each_way


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory with little in it."""
    return made(tmp_path / "source", {"file": "text", "sub/file": "more"})


def made(top: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
        os.utime(top / name, (TIME, TIME))
    return top


def described(top: Path) -> Described:
    """All that is in a directory, by the bytes of its names: permissions, time, and what it holds or points at."""
    found: Described = {}
    for path in (top, *top.rglob("*")):
        status = path.lstat()
        holds: object = None
        if stat.S_ISLNK(status.st_mode):
            holds = os.readlink(path)  # noqa: PTH115 - as it is
        elif stat.S_ISREG(status.st_mode):
            holds = path.read_bytes()
        found[bytes(path.relative_to(top))] = oct(status.st_mode), int(status.st_mtime), holds
    return found


# What is copied.


def _rich(top: Path) -> Path:
    (top / "sub" / "deep" / "empty").mkdir(parents=True)
    (top / "many").mkdir()
    for number in range(300):
        (top / "many" / str(number)).write_text(f"{number}\n" * number)
    (top / "large").write_bytes(os.urandom(20_000_000))
    for name in ("a 'b' \"c\"", "$(touch x)", "two\nlines", "-rf", "*", "back\\slash", "end ", "ü", "😀" * 63):
        (top / "sub" / name).write_text(name)
    (top / "sub" / os.fsdecode(b"\xff\xfe")).write_text("no UTF-8")
    deep = top / ("x" * 200) / ("é" * 100) / ("y" * 200)
    deep.mkdir(parents=True)
    (deep / "file").write_text("far down")
    (top / "outside").symlink_to("/etc/passwd")
    (top / "nowhere").symlink_to("../" * 30 + "none/" * 30)
    (top / "sub" / "folder").symlink_to("deep")
    (top / "closed").mkdir()
    (top / "closed" / "file").write_text("in it")
    for number, path in enumerate(sorted(top.rglob("*"))):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else (0o751, 0o444, 0o666, 0o640)[number % 4])
        os.utime(path, (TIME + number, TIME + number), follow_symlinks=False)
    (top / "closed").chmod(0o555)
    (top / "sub").chmod(0o777)
    os.utime(top, (TIME, TIME))
    top.chmod(0o711)
    return top


def test_what_is_in_a_directory_arrives_as_it_is(env: BaseEnvironment, tmp_path: Path) -> None:
    top = _rich(tmp_path / "source")
    want = described(top)
    env.put_dir(top, tmp_path / "there")
    assert described(tmp_path / "there") == want
    env.get_dir(str(top), tmp_path / "here")
    assert described(tmp_path / "here") == want


def test_files_of_several_names_keep_them(env: BaseEnvironment, source: Path, tmp_path: Path) -> None:
    (source / "sub" / "other").hardlink_to(source / "file")
    env.put_dir(source, str(tmp_path / "there"))
    env.get_dir(str(source), tmp_path / "here")
    for copy in (tmp_path / "there", tmp_path / "here"):
        assert (copy / "sub" / "other").samefile(copy / "file")
        assert (copy / "file").read_text() == "text"


def test_sockets_pipes_and_devices_are_left_out(env: BaseEnvironment, source: Path, tmp_path: Path) -> None:
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(source / "socket"))
    env.put_dir(source, str(tmp_path / "there"))
    env.get_dir(str(source), tmp_path / "here")
    for copy in (tmp_path / "there", tmp_path / "here"):
        assert sorted(path.name for path in copy.iterdir()) == ["file", "sub"]


def test_set_user_id_stays_behind(env: BaseEnvironment, source: Path, tmp_path: Path) -> None:
    (source / "file").chmod(0o6755)
    (source / "sub").chmod(0o3777)
    env.put_dir(source, str(tmp_path / "there"))
    env.get_dir(str(source), tmp_path / "here")
    for copy in (tmp_path / "there", tmp_path / "here"):
        assert stat.S_IMODE((copy / "file").stat().st_mode) == 0o755
        assert stat.S_IMODE((copy / "sub").stat().st_mode) == 0o777


def test_an_empty_directory_is_one_there_too(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir(mode=0o750)
    env.put_dir(tmp_path / "source", str(tmp_path / "new" / "there"))
    env.get_dir(str(tmp_path / "source"), tmp_path / "new" / "here")
    want = described(tmp_path / "source")
    assert described(tmp_path / "new" / "there") == described(tmp_path / "new" / "here") == want


def test_a_path_is_relative_to_the_session_or_to_the_home(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "-dir").mkdir()
    for make in WAYS:
        with make(tmp_path) as env:
            env.execute("cd ./-dir")
            env.put_dir(source, f"-{make.__name__}")
            env.put_dir(source, f"~/{make.__name__}/")
            env.get_dir(f"-{make.__name__}", tmp_path / "back" / make.__name__)
            env.get_dir(f"~/{make.__name__}", tmp_path / "back" / "home")
        for copy in (tmp_path / "-dir" / f"-{make.__name__}", tmp_path / "home" / make.__name__):
            assert described(copy) == described(source)
        assert described(tmp_path / "back" / make.__name__) == described(source)


def test_a_directory_may_be_copied_into_itself(env: BaseEnvironment, source: Path) -> None:
    env.put_dir(source, str(source / "copy"))
    assert (source / "copy" / "sub" / "file").read_text() == "more"
    assert not (source / "copy" / "copy").exists()


# What is there already.


def test_what_has_no_counterpart_stays(env: BaseEnvironment, source: Path, tmp_path: Path) -> None:
    for copy, act in (
        (tmp_path / "there", lambda: env.put_dir(source, str(tmp_path / "there"))),
        (tmp_path / "here", lambda: env.get_dir(str(source), tmp_path / "here")),
    ):
        made(copy, {"file": "old", "mine": "mine", "sub/mine": "mine"})
        copy.chmod(0o1777)
        act()
        found = {name: holds for name, (*_, holds) in described(copy).items() if holds}
        assert found == {b"file": b"text", b"mine": b"mine", b"sub/file": b"more", b"sub/mine": b"mine"}
        assert stat.S_IMODE(copy.stat().st_mode) == 0o1777, "a directory that others use too keeps its permissions"


def _in_the_way(top: Path, outside: Path) -> None:
    """Put links and files where others are to come."""
    made(outside, {"file": "outside", "sub/file": "outside"})
    top.mkdir()
    (top / "file").symlink_to(outside / "file")
    (top / "sub").symlink_to(outside / "sub")
    (top / "folder").write_text("a file where a directory comes")
    (top / "link").write_text("a file where a link comes")
    os.mkfifo(top / "pipe")


def test_a_link_or_a_file_in_the_way_is_replaced_and_not_followed(
    env: BaseEnvironment, source: Path, tmp_path: Path
) -> None:
    made(source, {"pipe": "none"})
    (source / "folder").mkdir()
    (source / "link").symlink_to("file")
    (source / "sub").chmod(0o750)
    _in_the_way(tmp_path / "there", tmp_path / "outside")
    _in_the_way(tmp_path / "here", tmp_path / "outside")
    before = described(tmp_path / "outside")
    env.put_dir(source, str(tmp_path / "there"))
    env.get_dir(str(source), tmp_path / "here")
    assert described(tmp_path / "outside") == before
    want = described(source)
    for copy in (tmp_path / "there", tmp_path / "here"):
        got = described(copy)
        assert {name: got[name] for name in want if name != b"."} == {n: w for n, w in want.items() if n != b"."}


def test_a_file_does_not_take_the_place_of_a_directory(env: BaseEnvironment, source: Path, tmp_path: Path) -> None:
    for copy in (tmp_path / "there", tmp_path / "here"):
        made(copy, {"file/in it": "kept"})
    with pytest.raises(TerminalError, match="file"):
        env.put_dir(source, str(tmp_path / "there"))
    with pytest.raises(TerminalError, match="irectory"):
        env.get_dir(str(source), tmp_path / "here")
    for copy in (tmp_path / "there", tmp_path / "here"):
        assert (copy / "file" / "in it").read_text() == "kept"
        assert not [path for path in copy.rglob("*") if path.name.startswith(".hermes")]


# What is unchanged.


def test_files_of_the_same_size_and_second_are_left_out(env: BaseEnvironment, source: Path, tmp_path: Path) -> None:
    names = ("same", "a 'b'", "end ", "two\nlines", "[x]*?", "ü")
    made(source, dict.fromkeys((*names, "longer", "later"), "first"))
    env.put_dir(source, str(tmp_path / "there"))
    env.get_dir(str(source), tmp_path / "here")
    for copy in (tmp_path / "there", tmp_path / "here"):
        made(copy, dict.fromkeys((*names, "longer", "later"), "other"))
        os.utime(copy / "same", (TIME + 0.9, TIME + 0.9))
    made(source, {"longer": "longer"})
    os.utime(source / "later", (TIME + 1, TIME + 1))
    env.put_dir(source, str(tmp_path / "there"), skip_unchanged=True)
    env.get_dir(str(source), tmp_path / "here", skip_unchanged=True)
    for copy in (tmp_path / "there", tmp_path / "here"):
        for name in set(names) - {"two\nlines"}:
            assert (copy / name).read_text() == "other", name
        assert [(copy / name).read_text() for name in ("longer", "later", "sub/file")] == ["longer", "first", "more"]


def test_what_is_unchanged_is_not_even_sent(
    env: BaseEnvironment, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "large").write_bytes(bytes(20_000_000))
    env.get_dir(str(source), tmp_path / "here")
    received = []
    add = directories._Pipe.add

    def count(pipe: directories._Pipe, channel: object, data: bytes) -> None:
        received.append(len(data))
        add(pipe, channel, data)  # type: ignore[arg-type]

    monkeypatch.setattr(directories._Pipe, "add", count)
    env.get_dir(str(source), tmp_path / "here", skip_unchanged=True)
    assert 0 < sum(received) < 1_000_000


def test_a_file_behind_a_link_is_not_taken_for_one_that_is_there(
    env: BaseEnvironment, source: Path, tmp_path: Path
) -> None:
    made(tmp_path / "outside", {"file": "more"})
    for copy in (tmp_path / "there", tmp_path / "here"):
        copy.mkdir()
        (copy / "sub").symlink_to(tmp_path / "outside")
    env.put_dir(source, str(tmp_path / "there"), skip_unchanged=True)
    env.get_dir(str(source), tmp_path / "here", skip_unchanged=True)
    for copy in (tmp_path / "there", tmp_path / "here"):
        assert (copy / "sub" / "file").read_text() == "more"
        assert not (copy / "sub").is_symlink()


# What cannot be copied.


def test_a_directory_that_is_not_here_is_named(env: BaseEnvironment, source: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "none", source / "file"):
        with pytest.raises(NotADirectoryError, match=path.name):
            env.put_dir(path, str(tmp_path / "there"))
    assert not (tmp_path / "there").exists()


def test_a_directory_that_is_not_there_is_named_and_nothing_is_made(env: BaseEnvironment, tmp_path: Path) -> None:
    for skip in (False, True):
        with pytest.raises(FileNotFoundError, match="none there"):
            env.get_dir(str(tmp_path / "none there"), tmp_path / "here", skip_unchanged=skip)
    assert not (tmp_path / "here").exists()


def test_what_is_no_directory_says_so(env: BaseEnvironment, source: Path, tmp_path: Path) -> None:
    with pytest.raises(TargetNotADirectoryError, match="file"):
        env.get_dir(str(source / "file"), tmp_path / "here")
    with pytest.raises(TargetNotADirectoryError, match=r"file.*mkdir"):
        env.put_dir(source, str(source / "file"))
    with pytest.raises(NotADirectoryError, match="file") as here:
        env.get_dir(str(source), source / "file")
    assert type(here.value) is NotADirectoryError


def test_the_targets_own_reason_is_told(env: BaseEnvironment, source: Path) -> None:
    with pytest.raises(TerminalError, match=r"/proc/none.*No such file or directory"):
        env.put_dir(source, "/proc/none")


def test_what_changes_while_it_is_read_is_an_error_and_leaves_no_process(env: BaseEnvironment, tmp_path: Path) -> None:
    changing = Path("/sys/class/net/lo")  # whose files are shorter than they say, or cannot be read at all
    if not changing.exists():
        pytest.skip("there is no /sys here")
    with pytest.raises(TerminalError, match="cannot read /sys"):
        env.put_dir(changing, str(tmp_path / "there"))
    assert _tars(env) == []


def _tars(env: BaseEnvironment) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["name"]):
        try:
            if process.info["name"] == "tar" and env.id in str(process.environ()):  # type: ignore[attr-defined]
                found.append(process)
        except psutil.Error:
            continue
    return found


# A tar of another kind, or none.


class OtherTar(PlainLocal):
    """This machine with another program as its tar; without a text, with none."""

    text = ""

    def start_target(self) -> None:
        super().start_target()
        tar = Path(self._path.name, "tar")
        tar.unlink()
        if self.text:
            tar.write_text(f"#!/bin/sh\n{self.text}\n")
            tar.chmod(0o755)


@pytest.fixture
def with_tar(tmp_path: Path) -> Iterator[Callable[[str], OtherTar]]:
    environments: list[OtherTar] = []

    def make(text: str) -> OtherTar:
        environments.append(OtherTar(load_settings("local", cwd=str(tmp_path))))
        environments[-1].text = text
        return environments[-1]

    yield make
    for environment in environments:
        environment.cleanup()


MakeWithTar = Callable[[str], OtherTar]


def test_a_target_without_tar_says_so(with_tar: MakeWithTar, source: Path, tmp_path: Path) -> None:
    env = with_tar("")
    with pytest.raises(TerminalError, match="has no `tar`"):
        env.put_dir(source, str(tmp_path / "there"))
    for skip in (False, True):
        with pytest.raises(TerminalError, match="has no `tar`"):
            env.get_dir(str(source), tmp_path / "here", skip_unchanged=skip)
    assert not (tmp_path / "there").exists() and not (tmp_path / "here").exists()


@pytest.mark.parametrize("before", ["", "head -c 512 archive; ", "cat archive; "])
def test_a_tar_that_fails_tells_why(with_tar: MakeWithTar, source: Path, tmp_path: Path, before: str) -> None:
    _archive_of({"file": "text"}, tmp_path / "archive")
    env = with_tar(f"cd {tmp_path}; {before}echo out of order >&2; exit 2")
    with pytest.raises(TerminalError, match="out of order"):
        env.put_dir(source, str(tmp_path / "there"))
    with pytest.raises(TerminalError, match="out of order"):
        env.get_dir(str(source), tmp_path / "here")


def test_a_tar_that_ends_early_is_an_error(with_tar: MakeWithTar, source: Path, tmp_path: Path) -> None:
    (source / "large").write_bytes(bytes(20_000_000))
    with pytest.raises(TerminalError, match="ended before the archive"):
        with_tar("head -c 100 >/dev/null").put_dir(source, str(tmp_path / "there"))


def test_a_variable_does_not_change_what_tar_does(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAR_OPTIONS", "--exclude=file --transform=s/^/../")
    for make in WAYS:
        with make(tmp_path) as env:
            env.put_dir(source, str(tmp_path / make.__name__ / "there"))
            env.get_dir(str(source), tmp_path / make.__name__ / "here")
        for name in ("there", "here"):
            assert described(tmp_path / make.__name__ / name) == described(source)


# An archive that is not to be trusted.


def _archive_of(members: dict[str, str], path: Path) -> Path:
    """Write an archive, of files, links (`->` and a target), hard links (`=` and a target) and directories (`/`)."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            kind, target = (text[:1], text[1:]) if text[:1] in ">=/" else ("", "")
            member.type = {">": tarfile.SYMTYPE, "=": tarfile.LNKTYPE, "/": tarfile.DIRTYPE}.get(kind, tarfile.REGTYPE)
            member.linkname, member.mode = target, 0o777
            member.size = 0 if kind else len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


ESCAPES: list[dict[str, str]] = [
    {"/OUTSIDE/new": "x"},
    {"../outside/new": "x"},
    {"./sub/../../outside/new": "x"},
    {"sub": ">OUTSIDE", "sub/new": "x"},
    {"sub": ">../outside", "sub/new": "/"},
    {"sub": ">.", "sub/new": "x"},
    {"sub": ">OUTSIDE", "sub/link": ">new"},
    {"sub": ">OUTSIDE", "sub/deep/new": "x"},
    {"sub": ">OUTSIDE/file", "link": "=sub"},
    {"link": "=../outside/file"},
    {"link": "=/OUTSIDE/file"},
    {"": "x"},
    {".": ">OUTSIDE"},
]


@pytest.mark.parametrize("members", ESCAPES, ids=str)
def test_a_member_outside_of_the_directory_is_refused(
    with_tar: MakeWithTar, source: Path, tmp_path: Path, members: dict[str, str]
) -> None:
    outside = made(tmp_path / "outside", {"file": "outside"})
    before = described(outside)

    def resolved(text: str) -> str:
        return text.replace("/OUTSIDE", str(outside)).replace("OUTSIDE", str(outside))

    evil = _archive_of({resolved(name): resolved(text) for name, text in members.items()}, tmp_path / "evil")
    with pytest.raises(TerminalError, match="outside"):
        with_tar(f"cat {evil}").get_dir(str(source), tmp_path / "here" / "top")
    assert described(outside) == before
    assert {path.name for path in (tmp_path / "here").rglob("*")} <= {"top", "sub", "link"}


def test_a_link_that_takes_the_place_of_a_directory_does_not_lead_out(
    with_tar: MakeWithTar, source: Path, tmp_path: Path
) -> None:
    outside = made(tmp_path / "outside", {"file": "outside"})
    outside.chmod(0o700)
    evil = _archive_of({"sub": "/"}, tmp_path / "evil")
    first = evil.read_bytes()[:512]
    evil = _archive_of({"sub": f">{outside}"}, tmp_path / "evil")
    evil.write_bytes(first + evil.read_bytes())
    with pytest.raises(TerminalError, match="cannot write"):
        with_tar(f"cat {evil}").get_dir(str(source), tmp_path / "here")
    assert stat.S_IMODE(outside.stat().st_mode) == 0o700


def _header(**values: object) -> bytes:
    member = tarfile.TarInfo("name")
    for name, value in values.items():
        setattr(member, name, value)
    return member.tobuf(tarfile.GNU_FORMAT)


def _extension(text: bytes) -> bytes:
    line = b"%d %s\n" % (len(text) + 4, text)
    return _header(type=tarfile.XHDTYPE, size=len(line)) + line.ljust(tarfile.BLOCKSIZE, b"\0")


NO_ARCHIVES = {
    "nothing": b"",
    "noise": b"Welcome!\n" * 1000,
    "noise behind a member": _header() + b"Welcome!\n" * 1000,
    "cut": _header(size=5000) + b"x" * 512,
    "cut behind a member": _header(),
    "a name that is long": _header(type=tarfile.GNUTYPE_LONGNAME, size=1 << 40),
    "a header that is long": _header(type=tarfile.XHDTYPE, size=1 << 40),
    "a size that is not to be": _header(type=b"V", size=1 << 60),
    "a sparse file": _header(type=tarfile.GNUTYPE_SPARSE),
    "a sparse file of POSIX": _extension(b"GNU.sparse.map=0,0,9999999,0") + _header() + bytes(1024),
    "a name with a NUL": _header(type=tarfile.XHDTYPE, size=512) + b"12 path=a\0b\n".ljust(512, b"\0") + _header(),
    "a time that is none": _header(type=tarfile.XHDTYPE, size=512) + b"12 mtime=nan\n".ljust(512, b"\0") + _header(),
    "a time that never comes": _header(mtime=1 << 80) + bytes(1024),
    "headers of headers": _header(type=tarfile.XHDTYPE) * 5000,
}


@pytest.mark.parametrize("name", NO_ARCHIVES)
def test_what_is_no_archive_is_an_error(with_tar: MakeWithTar, source: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "evil").write_bytes(NO_ARCHIVES[name])
    with pytest.raises(TerminalError, match=r"no archive|outside"):
        with_tar(f"cat {tmp_path}/evil").get_dir(str(source), tmp_path / "here")
    assert [path.name for path in (tmp_path / "here").rglob(".hermes*")] == []


def test_what_goes_on_behind_an_archive_is_ended(with_tar: MakeWithTar, source: Path, tmp_path: Path) -> None:
    archive = _archive_of({"file": "text"}, tmp_path / "archive")
    for text in (f"cat {archive} /dev/zero", "yes"):
        env = with_tar(text)
        with pytest.raises(TerminalError, match="no archive"):
            env.get_dir(str(source), tmp_path / "here")
        assert env.execute("echo still here").output == "still here\n"


# How much at a time.


def test_a_large_directory_takes_little_memory(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with (tmp_path / "source" / "file").open("wb") as file:
        file.truncate(150_000_000)
    env.execute("true")
    before = peak = psutil.Process().memory_info().rss
    over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.01):
            peak = max(peak, psutil.Process().memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        env.put_dir(tmp_path / "source", str(tmp_path / "there"))
        shutil.rmtree(tmp_path / "there")
        env.get_dir(str(tmp_path / "source"), tmp_path / "here")
    finally:
        over.set()
        watcher.join()
    assert (tmp_path / "here" / "file").stat().st_size == 150_000_000
    shutil.rmtree(tmp_path / "here")
    assert peak - before < 60_000_000


# Users that may not do everything, and the tar of BusyBox.


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
def test_every_tar_brings_every_user_the_same(docker_environment, tmp_path: Path, busybox: bool, user: str) -> None:
    env = _container(docker_environment, busybox=busybox, user=user)
    top = _rich(tmp_path / "source")
    want = {name: found for name, found in described(top).items() if not found[0].startswith("0o12")}
    links = {name: found[2] for name, found in described(top).items() if name not in want}
    for _ in range(2):  # once more over what is not to be written to
        env.put_dir(top, "/tmp/new/there")
        env.get_dir("/tmp/new/there", tmp_path / "here", skip_unchanged=True)
        os.utime(tmp_path / "here", (TIME, TIME))
        got = described(tmp_path / "here")
        assert {name: found for name, found in got.items() if name in want} == want
        assert {name: found[2] for name, found in got.items() if name not in want} == links


@pytest.mark.parametrize("busybox", [False, True], ids=["GNU", "BusyBox"])
def test_no_tar_writes_through_a_link(docker_environment, source: Path, busybox: bool) -> None:
    env = _container(docker_environment, busybox=busybox, user="1000:1000")
    env.execute("mkdir -p /tmp/outside/sub /tmp/there; echo mine >/tmp/outside/file; cd /tmp/there")
    env.execute("ln -s ../outside/file file; ln -s ../outside/sub sub")
    env.put_dir(source, "/tmp/there")
    assert env.execute("cat /tmp/outside/file; ls /tmp/outside/sub; cat file sub/file").output == "mine\ntextmore"


def test_what_is_out_of_reach_is_not_taken_for_missing(docker_environment, source: Path, tmp_path: Path) -> None:
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

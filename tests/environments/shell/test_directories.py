"""Transfers of whole directories through a shell, also with a malicious tar."""

from __future__ import annotations

import io
import os
import socket
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.directory_trees import TIME, describe_tree, make_rich_tree, write_tree
from targets.local_shells import without_bash
from targets.plain_local import PlainLocal

from environments import BaseEnvironment, TerminalError, load_settings


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    with without_bash(tmp_path) as env:
        yield env


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Make a small directory."""
    return write_tree(tmp_path / "source", {"file": "text", "sub/file": "more"})


# Copied entries.


def test_all_entries_of_a_directory_arrive_unchanged(env: BaseEnvironment, tmp_path: Path) -> None:
    top = make_rich_tree(tmp_path / "source")
    want = describe_tree(top)
    env.put_dir(top, tmp_path / "there")
    assert describe_tree(tmp_path / "there") == want
    env.get_dir(str(top), tmp_path / "here")
    assert describe_tree(tmp_path / "here") == want


def test_links_modes_and_empty_directories_are_kept_and_special_files_are_left_out(
    env: BaseEnvironment, source: Path, tmp_path: Path
) -> None:
    (source / "other").hardlink_to(source / "file")
    (source / "file").chmod(0o6755)
    (source / "sub").chmod(0o3777)
    (source / "empty").mkdir(mode=0o750)
    os.mkfifo(source / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(source / "socket"))
    env.put_dir(source, str(tmp_path / "new" / "there"))
    env.get_dir(str(source), tmp_path / "new" / "here")
    for copy in (tmp_path / "new" / "there", tmp_path / "new" / "here"):
        assert sorted(path.name for path in copy.iterdir()) == ["empty", "file", "other", "sub"]
        assert (copy / "other").samefile(copy / "file")
        modes = [stat.S_IMODE((copy / name).stat().st_mode) for name in ("file", "sub", "empty")]
        assert modes == [0o755, 0o777, 0o750]


def test_a_path_may_be_relative_of_the_home_or_within_the_source(
    env: BaseEnvironment, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "-dir").mkdir()
    env.execute("cd ./-dir")
    env.put_dir(source, "-there")
    env.put_dir(source, "~/there/")
    env.get_dir("-there", tmp_path / "back")
    want = describe_tree(source)
    for copy in (tmp_path / "-dir" / "-there", tmp_path / "home" / "there", tmp_path / "back"):
        assert describe_tree(copy) == want
    env.put_dir(source, str(source / "copy"))
    assert (source / "copy" / "sub" / "file").read_text() == "more"
    assert not (source / "copy" / "copy").exists()


# Existing entries.


def test_existing_entries_without_a_counterpart_stay(env: BaseEnvironment, source: Path, tmp_path: Path) -> None:
    for copy, act in (
        (tmp_path / "there", lambda: env.put_dir(source, str(tmp_path / "there"))),
        (tmp_path / "here", lambda: env.get_dir(str(source), tmp_path / "here")),
    ):
        write_tree(copy, {"file": "old", "mine": "mine", "sub/mine": "mine"})
        copy.chmod(0o1777)
        act()
        found = {name: holds for name, (*_, holds) in describe_tree(copy).items() if holds}
        assert found == {b"file": b"text", b"mine": b"mine", b"sub/file": b"more", b"sub/mine": b"mine"}
        assert stat.S_IMODE(copy.stat().st_mode) == 0o1777, "an existing directory keeps its permissions"


def _put_in_the_way(top: Path, outside: Path) -> None:
    """Put links and files in the places of entries to copy."""
    write_tree(outside, {"file": "outside", "sub/file": "outside"})
    top.mkdir()
    (top / "file").symlink_to(outside / "file")
    (top / "sub").symlink_to(outside / "sub")
    (top / "folder").write_text("a file where a directory comes")
    (top / "link").write_text("a file where a link comes")
    os.mkfifo(top / "pipe")


def test_a_link_or_a_file_in_the_way_is_replaced_and_not_followed(
    env: BaseEnvironment, source: Path, tmp_path: Path
) -> None:
    write_tree(source, {"pipe": "none"})
    (source / "folder").mkdir()
    (source / "link").symlink_to("file")
    (source / "sub").chmod(0o750)
    _put_in_the_way(tmp_path / "there", tmp_path / "outside")
    _put_in_the_way(tmp_path / "here", tmp_path / "outside")
    before = describe_tree(tmp_path / "outside")
    env.put_dir(source, str(tmp_path / "there"))
    env.get_dir(str(source), tmp_path / "here")
    assert describe_tree(tmp_path / "outside") == before
    want = describe_tree(source)
    for copy in (tmp_path / "there", tmp_path / "here"):
        got = describe_tree(copy)
        assert {name: got[name] for name in want if name != b"."} == {n: w for n, w in want.items() if n != b"."}


def test_a_file_does_not_take_the_place_of_a_directory(env: BaseEnvironment, source: Path, tmp_path: Path) -> None:
    for copy in (tmp_path / "there", tmp_path / "here"):
        write_tree(copy, {"file/in it": "kept"})
    with pytest.raises(TerminalError, match="file"):
        env.put_dir(source, str(tmp_path / "there"))
    with pytest.raises(TerminalError, match="irectory"):
        env.get_dir(str(source), tmp_path / "here")
    for copy in (tmp_path / "there", tmp_path / "here"):
        assert (copy / "file" / "in it").read_text() == "kept"
        assert not [path for path in copy.rglob("*") if path.name.startswith(".hermes")]


# Unchanged files.


def test_files_of_the_same_size_and_second_are_left_out(env: BaseEnvironment, source: Path, tmp_path: Path) -> None:
    names = ("same", "a 'b'", "end ", "two\nlines", "[x]*?", "ü")
    write_tree(source, dict.fromkeys((*names, "longer", "later"), "first"))
    env.put_dir(source, str(tmp_path / "there"))
    env.get_dir(str(source), tmp_path / "here")
    for copy in (tmp_path / "there", tmp_path / "here"):
        write_tree(copy, dict.fromkeys((*names, "longer", "later"), "other"))
        os.utime(copy / "same", (TIME + 0.9, TIME + 0.9))
    write_tree(source, {"longer": "longer"})
    os.utime(source / "later", (TIME + 1, TIME + 1))
    env.put_dir(source, str(tmp_path / "there"), skip_unchanged=True)
    env.get_dir(str(source), tmp_path / "here", skip_unchanged=True)
    for copy in (tmp_path / "there", tmp_path / "here"):
        for name in set(names) - {"two\nlines"}:
            assert (copy / name).read_text() == "other", name
        assert [(copy / name).read_text() for name in ("longer", "later", "sub/file")] == ["longer", "first", "more"]


def test_a_file_behind_a_link_is_not_skipped_as_unchanged(env: BaseEnvironment, source: Path, tmp_path: Path) -> None:
    write_tree(tmp_path / "outside", {"file": "more"})
    for copy in (tmp_path / "there", tmp_path / "here"):
        copy.mkdir()
        (copy / "sub").symlink_to(tmp_path / "outside")
    env.put_dir(source, str(tmp_path / "there"), skip_unchanged=True)
    env.get_dir(str(source), tmp_path / "here", skip_unchanged=True)
    for copy in (tmp_path / "there", tmp_path / "here"):
        assert (copy / "sub" / "file").read_text() == "more"
        assert not (copy / "sub").is_symlink()


# Errors.


def test_a_missing_directory_is_named_and_nothing_is_made(env: BaseEnvironment, source: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "none", source / "file"):
        with pytest.raises(NotADirectoryError, match=path.name):
            env.put_dir(path, str(tmp_path / "there"))
    with pytest.raises(FileNotFoundError, match="none there"):
        env.get_dir(str(tmp_path / "none there"), tmp_path / "here", skip_unchanged=True)
    with pytest.raises(NotADirectoryError, match="file") as here:
        env.get_dir(str(source), source / "file")
    assert type(here.value) is NotADirectoryError
    with pytest.raises(TerminalError, match=r"/proc/none.*No such file or directory"):
        env.put_dir(source, "/proc/none")
    assert not (tmp_path / "there").exists() and not (tmp_path / "here").exists()


def test_a_file_that_changes_while_it_is_read_is_an_error(env: BaseEnvironment, tmp_path: Path) -> None:
    # Files of sysfs are shorter than their stated size, or cannot be read at all.
    with pytest.raises(TerminalError, match="cannot read /sys"):
        env.put_dir("/sys/class/net/lo", str(tmp_path / "there"))


# Another tar, or none.


MakeWithTar = Callable[[str], BaseEnvironment]


@pytest.fixture
def with_tar(tmp_path: Path) -> Iterator[MakeWithTar]:
    """Make environments whose tar is a script."""
    environments: list[BaseEnvironment] = []

    def make(text: str) -> BaseEnvironment:
        environments.append(PlainLocal(load_settings("local", cwd=str(tmp_path))))
        environments[-1].first_programs = programs = tmp_path / f"programs{len(environments)}"
        programs.mkdir()
        (programs / "tar").write_text(f"#!/bin/sh\n{text}\n")
        (programs / "tar").chmod(0o755)
        return environments[-1]

    yield make
    for environment in environments:
        environment.cleanup()


class WithoutTar(PlainLocal):
    """This machine without the program `tar`."""

    has_own_programs = True

    def start_target(self) -> None:
        super().start_target()
        Path(self._path.name, "tar").unlink()


def test_a_target_without_tar_is_an_error(source: Path, tmp_path: Path) -> None:
    with WithoutTar(load_settings("local", cwd=str(tmp_path))) as env:
        with pytest.raises(TerminalError, match="has no `tar`"):
            env.put_dir(source, str(tmp_path / "there"))
        for skip in (False, True):
            with pytest.raises(TerminalError, match="has no `tar`"):
                env.get_dir(str(source), tmp_path / "here", skip_unchanged=skip)
    assert not (tmp_path / "there").exists() and not (tmp_path / "here").exists()


def test_a_tar_that_fails_or_ends_early_is_an_error_with_the_reason(
    with_tar: MakeWithTar, source: Path, tmp_path: Path
) -> None:
    _archive_of({"file": "text"}, tmp_path / "archive")
    for before in ("", "head -c 512 archive; ", "cat archive; "):
        env = with_tar(f"cd {tmp_path}; {before}echo out of order >&2; exit 2")
        with pytest.raises(TerminalError, match="out of order"):
            env.put_dir(source, str(tmp_path / "there"))
        with pytest.raises(TerminalError, match="out of order"):
            env.get_dir(str(source), tmp_path / "here")
    (source / "large").write_bytes(bytes(5_000_000))
    with pytest.raises(TerminalError, match="ended before the archive"):
        with_tar("head -c 100 >/dev/null").put_dir(source, str(tmp_path / "there"))


def test_tar_ignores_the_variable_tar_options(
    env: BaseEnvironment, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAR_OPTIONS", "--exclude=file --transform=s/^/../")
    env.put_dir(source, str(tmp_path / "there"))
    env.get_dir(str(source), tmp_path / "here")
    assert describe_tree(tmp_path / "there") == describe_tree(tmp_path / "here") == describe_tree(source)


# Malicious archives.


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


def test_a_member_outside_of_the_directory_is_refused(with_tar: MakeWithTar, source: Path, tmp_path: Path) -> None:
    outside = write_tree(tmp_path / "outside", {"file": "outside"})
    before = describe_tree(outside)
    env = with_tar(f"cat {tmp_path}/evil")

    def resolved(text: str) -> str:
        return text.replace("/OUTSIDE", str(outside)).replace("OUTSIDE", str(outside))

    for number, members in enumerate(ESCAPES):
        _archive_of({resolved(name): resolved(text) for name, text in members.items()}, tmp_path / "evil")
        here = tmp_path / f"here{number}"
        with pytest.raises(TerminalError, match="outside"):
            env.get_dir(str(source), here / "top")
        assert describe_tree(outside) == before, members
        assert {path.name for path in here.rglob("*")} <= {"top", "sub", "link"}, members


def test_a_link_that_takes_the_place_of_a_directory_does_not_lead_out(
    with_tar: MakeWithTar, source: Path, tmp_path: Path
) -> None:
    outside = write_tree(tmp_path / "outside", {"file": "outside"})
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


def test_an_invalid_archive_is_an_error(with_tar: MakeWithTar, source: Path, tmp_path: Path) -> None:
    env = with_tar(f"cat {tmp_path}/evil")
    for name, archive in NO_ARCHIVES.items():
        (tmp_path / "evil").write_bytes(archive)
        with pytest.raises(TerminalError, match=r"no valid archive|outside"):
            env.get_dir(str(source), tmp_path / name)
        assert [path.name for path in (tmp_path / name).rglob(".hermes*")] == [], name


def test_a_tar_that_prints_more_than_an_archive_is_ended(with_tar: MakeWithTar, source: Path, tmp_path: Path) -> None:
    archive = _archive_of({"file": "text"}, tmp_path / "archive")
    for text in (f"cat {archive} /dev/zero", "yes"):
        env = with_tar(text)
        with pytest.raises(TerminalError, match="no valid archive"):
            env.get_dir(str(source), tmp_path / "here")
        assert env.execute("echo still here").output == "still here\n"

"""Reading, writing and replacing files: special files, links, names and permissions."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from targets.local_shells import without_bash
from targets.plain_local import PlainLocal

from environments import BaseEnvironment, TerminalError
from environments.conformance.check import wait_until
from environments.errors import TargetIsADirectoryError, TargetNotADirectoryError
from environments.loop import current, run
from environments.output import Channel
from environments.shell.dialect.files import SMALL
from environments.shell.dialect.writing import BLOCK, reading_input
from environments.shell.stream import Stream
from environments.shell.transfer import ReadableOutput, run_reader

SIZES = (5, SMALL + 1, 200_000)
"""Sizes of both protocols: small files are part of the shell text, large files are streamed."""


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def source_of(tmp_path: Path, size: int = 5, mode: int = 0o644) -> Path:
    path = tmp_path / "source"
    path.write_bytes(bytes(size))
    path.chmod(mode)
    return path


def parts_in(folder: Path) -> list[str]:
    """Return the names of partly written files."""
    return [path.name for path in folder.rglob(".hermes*")]


def raises(kind: type[Exception], says: str, call: Callable[[], object]) -> bool:
    try:
        call()
    except Exception as error:
        return type(error) is kind and says in str(error)
    return False


def test_a_path_that_is_no_regular_file_is_not_read_and_not_replaced(env: BaseEnvironment, tmp_path: Path) -> None:
    source, target = source_of(tmp_path), tmp_path / "target"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    failed = []
    for name in ("pipe", "directory"):
        kind = stat.S_IFMT((tmp_path / name).lstat().st_mode)
        (tmp_path / f"link to {name}").symlink_to(name)
        is_directory = name == "directory"
        reason = "Is a" if is_directory else "not a regular file"
        there = TargetIsADirectoryError if is_directory else TerminalError
        here = IsADirectoryError if is_directory else TerminalError
        for path in (tmp_path / name, tmp_path / f"link to {name}"):
            for act, error in (
                (lambda path=path: env.read_bytes(str(path)), there),
                (lambda path=path: env.get_file(str(path), target), there),
                (lambda path=path: env.put_file(path, str(target)), here),
                *((lambda path=path, size=size: env.write_bytes(str(path), bytes(size)), there) for size in SIZES),
                (lambda path=path: env.put_file(source, str(path)), there),
                (lambda path=path: env.get_file(str(source), path), here),
            ):
                if not (raises(error, reason, act) and raises(error, str(path), act)):
                    failed.append((path.name, error))
        assert stat.S_IFMT((tmp_path / name).lstat().st_mode) == kind
        assert (tmp_path / f"link to {name}").is_symlink()
    assert failed == []
    assert not target.exists()
    assert parts_in(tmp_path) == []


def test_links_are_written_through_unless_they_lead_in_a_circle(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    for act in (
        lambda: env.read_bytes(str(tmp_path / "circle")),
        lambda: env.write_bytes(str(tmp_path / "circle"), b"x"),
        lambda: env.get_file(str(source_of(tmp_path)), tmp_path / "circle"),
    ):
        with pytest.raises(TerminalError, match="circle"):
            act()
    (tmp_path / "link").symlink_to("new")
    env.write_bytes(str(tmp_path / "link"), b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "new").read_bytes() == b"x"
    with pytest.raises(FileNotFoundError, match="none"):
        env.put_file(tmp_path / "none", str(tmp_path / "target"))
    assert not (tmp_path / "target").exists()
    assert parts_in(tmp_path) == []


def test_a_file_may_have_any_name(env: BaseEnvironment, tmp_path: Path) -> None:
    for name in ("😀" * 63, "-rf", "two\nlines", "$(touch x) 'y' \"z\"", "~", "*", "end "):
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
    for path in (f"{tmp_path}/new//", f"{tmp_path}/new/.", f"{tmp_path}/"):
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


def test_set_user_id_stays_behind_and_a_new_file_has_the_usual_permissions(
    env: BaseEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "usual").touch()
    for size in SIZES:
        source = source_of(tmp_path, size, 0o7755)
        env.put_file(source, str(tmp_path / "there"))
        env.get_file(str(source), tmp_path / "here")
        env.write_bytes(str(source), bytes(size))
        assert [permissions(path) for path in (tmp_path / "there", tmp_path / "here", source)] == [0o755] * 3
        env.write_bytes(str(tmp_path / f"new{size}"), bytes(size))
        assert permissions(tmp_path / f"new{size}") == permissions(tmp_path / "usual")


def test_permissions_go_along_and_are_kept(env: BaseEnvironment, tmp_path: Path) -> None:
    for mode, size in zip((0o444, 0o000, 0o751), SIZES, strict=True):
        source = source_of(tmp_path, size, mode)
        for _ in range(2):  # the second time over read-only files
            env.put_file(source, str(tmp_path / "there"))
            env.get_file(str(source), tmp_path / "here")
            env.write_bytes(str(tmp_path / "there"), b"x" * size)
            assert [permissions(path) for path in (tmp_path / "there", tmp_path / "here")] == [mode] * 2
            assert (tmp_path / "there").read_bytes() == b"x" * size
        source.unlink()


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


def program(path: Path, *lines: str) -> None:
    """Write a program as a shell script."""
    path.write_text("\n".join(("#!/bin/sh", *lines)))
    path.chmod(0o755)


@pytest.mark.parametrize("name", ["dd", "stat"])
def test_a_large_file_is_put_with_programs_that_lack_options(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, source, there = tmp_path / "programs", tmp_path / "source", tmp_path / "there"
    programs.mkdir()
    program(programs / name, f'echo "{name}: illegal option" >&2', "exit 1")
    monkeypatch.setattr(PlainLocal, "first_programs", programs)
    source.write_bytes(os.urandom(3 * BLOCK + 1))
    with without_bash(tmp_path) as env:
        env.put_file(source, str(there))
        assert there.read_bytes() == source.read_bytes()
        assert env.execute("echo works").output == "works\n"


@pytest.mark.parametrize("size", [1, BLOCK, BLOCK + 1, 3 * BLOCK, 4_000_000])
def test_exactly_the_bytes_of_the_file_are_read_however_they_come(size: int) -> None:
    """Bytes behind the file are left to the shell."""
    text = f"{{ {reading_input(size)}\n}} | wc -c; cat"
    child = subprocess.Popen(["/bin/sh", "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert child.stdin and child.stdout
    data = bytes(size) + b"behind"
    with child:
        for begin in range(0, len(data), 9999):
            child.stdin.write(data[begin : begin + 9999])
        child.stdin.close()
        assert child.stdout.read().split() == [str(size).encode(), b"behind"]


def test_a_little_is_read_before_there_is_more() -> None:
    async def bring(reader: ReadableOutput) -> int:
        reader.on(cast(Stream, None))  # so little data pauses no stream
        for _ in range(3):
            taken = current().loop.create_future()
            reader.on_read = lambda _, taken=taken: current().soon(taken.set_result, None)
            reader.add(Channel.STDOUT, b"little")
            await taken
        return 0

    assert run(lambda _: run_reader(bring, lambda reader: [*iter(reader.read, b"")])) == [b"little"] * 3


def test_a_file_of_proc_is_copied_though_its_stated_size_is_zero(bash_or_sh: BaseEnvironment, tmp_path: Path) -> None:
    bash_or_sh.put_file("/proc/version", str(tmp_path / "there"))
    bash_or_sh.get_file("/proc/version", tmp_path / "here")
    (tmp_path / "nothing").touch()
    bash_or_sh.put_file(tmp_path / "nothing", str(tmp_path / "empty"))
    version = Path("/proc/version").read_text()
    assert [(tmp_path / name).read_text() for name in ("there", "here", "empty")] == [version, version, ""]


def test_a_file_that_becomes_shorter_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with without_bash(tmp_path) as env:
        with pytest.raises(TerminalError, match="became shorter"):
            env.put_file("/sys/class/net/lo/mtu", str(tmp_path / "file"))  # shorter than its stated size
        assert (tmp_path / "file").read_text() == "old"
        assert parts_in(tmp_path) == []
        assert env.execute("echo still here").output == "still here\n"


def test_a_program_that_misses_the_signal_ends_and_leaves_no_part_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in the middle of its start misses a signal."""
    programs, there = tmp_path / "programs", tmp_path / "there"
    programs.mkdir()
    there.mkdir()
    program(
        programs / "head",
        "trap '' TERM",
        f": >{programs}/begun",
        f'{shutil.which("head")} "$@"',
        f": >{programs}/ended",
    )
    monkeypatch.setattr(PlainLocal, "first_programs", programs)
    monkeypatch.setattr("environments.progress.INTERVAL", 0)
    with without_bash(there) as env:
        env.progress.callback = lambda progress: progress.done and wait_until((programs / "begun").exists)
        with pytest.raises(TerminalError, match="became shorter"):
            env.put_file("/sys/class/net/lo/mtu", str(there / "file"))
        assert list(there.iterdir()) == []
        assert (programs / "ended").exists()  # ended by the end of its input


def test_standard_input_is_a_private_and_deleted_file(env: BaseEnvironment, tmp_path: Path) -> None:
    look = "stat -Lc %a /proc/self/fd/0; readlink /proc/self/fd/0; cat"
    for execute in (env.execute, env.execute_oneshot):
        mode, place, text = execute(look, stdin="secret").output.split("\n")
        path = Path(place.removesuffix(" (deleted)"))
        assert text == "secret"
        assert place.endswith(" (deleted)") and not path.exists()
        assert permissions(path.parent) == 0o700
        assert mode == "600"


def test_text_is_refused_in_an_encoding_that_python_does_not_know(env: BaseEnvironment, tmp_path: Path) -> None:
    path = str(tmp_path / "text")
    for given, says in (
        ({"encoding": "utf-9"}, "encoding is 'utf-9'"),
        ({"encoding": "hex"}, "encoding is 'hex'"),
        ({"encoding": "utf-8\0"}, "encoding is"),
        ({"encoding": 100}, "encoding is of type int"),
        ({"errors": "lenient"}, "errors is 'lenient'"),
        ({"errors": None}, "errors is of type NoneType"),
    ):
        for act in (lambda: env.read_text(path, **given), lambda: env.write_text(path, "x", **given)):  # noqa: B023
            with pytest.raises((TypeError, ValueError), match=says):
                act()
    assert not (tmp_path / "text").exists()


def test_decoding_names_the_first_bytes_that_are_not_text(env: BaseEnvironment, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"text" * 30_000 + b"\xff")
    with pytest.raises(UnicodeDecodeError, match=r"position 120000: .*binary.*read_bytes") as raised:
        env.read_text(tmp_path / "binary")
    assert raised.value.start == 120_000
    assert env.read_text(tmp_path / "binary", limit=120_000) == "text" * 30_000
    assert env.read_text(tmp_path / "binary", errors="replace")[-2:] == "t\ufffd"

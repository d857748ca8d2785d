"""Files and directories, the basis of scripts and stdin, and obstacles in their way. Part of line 5."""

from __future__ import annotations

import errno
import os
import pickle
import shlex
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from environments.base import BaseEnvironment
from environments.conformance.check import Subject, check, expect, expect_output, expect_raised, unique
from environments.errors import (
    TargetFileError,
    TargetFileExistsError,
    TargetFileNotFoundError,
    TargetIsADirectoryError,
    TargetNotADirectoryError,
    TargetPermissionError,
    TerminalError,
)

SIZES = (0, 1, 1000, 200_000, 3_000_000)
Act = Callable[[], object]


@check(5)
def bytes_written_are_read_back(subject: Subject) -> None:
    env, name = subject.env, unique("a 'b\" $c")
    for size in SIZES:
        data = os.urandom(size)
        env.write_bytes(f"/tmp/{name}/sub/file", data)
        expect(env.read_bytes(f"/tmp/{name}/sub/file") == data, f"{size} bytes come back")
    _remove(env, f"/tmp/{name}")


TEXTS = ("", "as\r\nit\ris\n", "\ufeffmark, no end of line", "h\xe9, \u65e5\u672c, \U0001f600\0" * 30_000)


@check(5)
def text_written_is_read_back(subject: Subject) -> None:
    env, name = subject.env, unique("/tmp/text")
    for text in TEXTS:
        for encoding in ("utf-8", "utf-16"):
            env.write_text(name, text, encoding)
            read = env.read_text(name, encoding)
            expect(read == text, f"{len(text)} characters come back in {encoding}", read[:80])
            expect(env.read_bytes(name) == text.encode(encoding), f"{len(text)} characters are {encoding} there")
    env.write_text(name, "a\xe9\n")
    expect(env.read_text(name, limit=2) == "a", "a character behind the limit is left out")
    expect(env.read_text(name, limit=3) == "a\xe9", "a character within the limit is read")
    env.write_bytes(name, b"caf\xe9\n")
    expect(env.read_text(name, "latin-1") == "caf\xe9\n", "another encoding is read")
    as_it_is = env.read_text(name, errors="surrogateescape")
    env.write_text(name, as_it_is, errors="surrogateescape")
    expect(env.read_bytes(name) == b"caf\xe9\n", "surrogateescape keeps the bytes")
    with expect_raised(UnicodeDecodeError, "bytes that are not text are an error") as decoding:
        env.read_text(name)
    expect("position 3" in str(decoding[0]) and name in str(decoding[0]), "place and path are named", decoding)
    with expect_raised(UnicodeEncodeError, "a character that the encoding lacks is an error") as encoding_error:
        env.write_text(name, "\u65e5", "latin-1")
    expect("position 0" in str(encoding_error[0]), "the place is named", encoding_error)
    with expect_raised(TypeError, "text is refused as bytes") as no_bytes:
        env.write_bytes(name, "text")  # type: ignore[arg-type]
    expect("write_text" in str(no_bytes[0]), "the other method is named", no_bytes)
    with expect_raised(TypeError, "bytes are refused as text") as no_text:
        env.write_text(name, b"bytes")  # type: ignore[arg-type]
    expect("write_bytes" in str(no_text[0]), "the other method is named", no_text)
    expect(env.read_bytes(name) == b"caf\xe9\n", "what is refused leaves the file as it was")
    env.remove(name)


@check(5)
def files_are_copied_with_their_mode(subject: Subject) -> None:
    env, name = subject.env, unique("/tmp/file")
    with tempfile.TemporaryDirectory() as here:
        source, target = Path(here, "source"), Path(here, "target")
        source.write_bytes(os.urandom(3_000_000))
        source.chmod(0o751)
        env.put_file(source, name)
        expect("751" in env.execute_oneshot(f"stat -c %a {name}").output, "the mode goes along")
        env.get_file(name, target)
        expect(target.read_bytes() == source.read_bytes(), "the bytes are the same")
        expect(target.stat().st_mode & 0o777 == 0o751, "the mode comes along", oct(target.stat().st_mode))
    _remove(env, name)


@check(5)
def replacing_a_file_keeps_its_mode_and_its_link(subject: Subject) -> None:
    env, name = subject.env, unique("/tmp/dir")
    env.write_bytes(f"{name}/file", b"old")
    env.execute_oneshot(f"chmod 640 {name}/file; ln -s file {name}/link")
    env.write_bytes(f"{name}/link", b"new")
    expect(env.read_bytes(f"{name}/file") == b"new", "the link was followed")
    listing = env.execute_oneshot(f"stat -c %a {name}/file; readlink {name}/link; ls -a {name}").output
    expect(listing.split() == ["640", "file", ".", "..", "file", "link"], "mode and link are kept", listing)
    _remove(env, name)


@check(5)
def paths_may_be_relative_or_of_the_home(subject: Subject) -> None:
    env, name = subject.env, unique()
    home = env.cwd
    env.execute(f"mkdir /tmp/{name} && cd /tmp/{name}")
    env.write_bytes("relative", b"here")
    expect(env.read_bytes(f"/tmp/{name}/relative") == b"here", "a relative path is the session's")
    env.execute(f"cd '{home}'")
    _remove(env, f"/tmp/{name}")
    if env.execute_oneshot('[ -w "$HOME" ]').ok:
        env.write_bytes(f"~/{name}", b"home")
        expect(env.execute_oneshot(f'cat "$HOME/{name}"; rm "$HOME/{name}"').output == "home", "~ is the home")


@check(5)
def what_cannot_be_read_or_written_says_why(subject: Subject) -> None:
    env = subject.env
    with expect_raised(FileNotFoundError, "a missing file raises FileNotFoundError") as raised:
        env.read_bytes("/no/such/file")
    expect("/no/such/file" in str(raised[0]), "the path is named", raised)
    with tempfile.TemporaryDirectory() as here:
        with expect_raised(FileNotFoundError, "a missing file raises FileNotFoundError"):
            env.get_file("/no/such/file", Path(here, "new", "file"))
        expect(not Path(here, "new").exists(), "a file that is not there leaves nothing here")
    for path, act in (
        ("/tmp", lambda: env.read_bytes("/tmp")),
        ("/tmp", lambda: env.write_bytes("/tmp", b"x")),
        ("/proc/none", lambda: env.write_bytes("/proc/none", b"x")),
    ):
        _expect_terminal_error(path, act)


@check(5)
def directories_are_copied_there_and_back(subject: Subject) -> None:
    env, name = subject.env, unique("/tmp/a 'b' dir")
    with tempfile.TemporaryDirectory() as here:
        top = _made_directory(Path(here, "source"))
        env.put_dir(top, name)
        listed = env.execute_oneshot(
            f"cd {shlex.quote(name)} && stat -c '%a %n' sub sub/script && readlink sub/link && readlink near"
        )
        expect(listed.output == "555 sub\n751 sub/script\n/no/such/place\nsub\n", "it is there", listed)
        env.get_dir(name, Path(here, "back"))
        back, want = _described(Path(here, "back")), _described(top)
        expect(back == want, f"it comes back as {want}", back)
        env.put_dir(top, name)  # a second time, over read-only entries
        _remove(env, name)
        with expect_raised(FileNotFoundError, "a missing directory raises FileNotFoundError") as raised:
            env.get_dir(name, Path(here, "never"))
        expect(name in str(raised[0]), "the path is named", raised)


def _made_directory(top: Path) -> Path:
    sub = top / "sub"
    (sub / "empty").mkdir(parents=True)
    (sub / "script").write_bytes(os.urandom(200_000))
    (sub / "script").chmod(0o751)
    (sub / "link").symlink_to("/no/such/place")
    (top / "near").symlink_to("sub")
    (top / "a 'name'\n$of two lines").write_text("small")
    for number, path in enumerate(top.rglob("*")):
        os.utime(path, (1_000_000_000 + number,) * 2, follow_symlinks=False)
    sub.chmod(0o555)
    return top


def _described(top: Path) -> dict[str, tuple[int, int, int]]:
    """Return permissions, time and contents of all entries of a directory. Not every tar stores the times of links."""
    found = {}
    for path in top.rglob("*"):
        status = path.lstat()
        if path.is_symlink():
            found[str(path.relative_to(top))] = 0, 0, hash(path.readlink())
        else:
            data = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(top))] = status.st_mode, int(status.st_mtime), hash(data)
    return found


@check(5)
def files_that_are_unchanged_are_left_out(subject: Subject) -> None:
    env, name = subject.env, unique("/tmp/dir")
    with tempfile.TemporaryDirectory() as here:
        top, back = Path(here, "source"), Path(here, "back")
        top.mkdir()
        for file in ("same", "longer", "later"):
            (top / file).write_text("first")
            os.utime(top / file, (1_000_000_000,) * 2)
        env.put_dir(top, name)
        env.get_dir(name, back)
        for file, text, time in (("same", "other", 0), ("longer", "longer", 0), ("later", "other", 1)):
            (top / file).write_text(text)
            os.utime(top / file, (1_000_000_000 + time,) * 2)
        env.put_dir(top, name, skip_unchanged=True)
        texts = env.execute_oneshot(f"cd {name} && cat same longer later").output
        expect(texts == "firstlongerother", "one is left out", texts)
        (back / "same").write_text("local")
        os.utime(back / "same", (1_000_000_000,) * 2)
        env.get_dir(name, back, skip_unchanged=True)
        texts = "".join((back / file).read_text() for file in ("same", "longer", "later"))
        expect(texts == "locallongerother", "one is left out on the way back", texts)
    _remove(env, name)


@check(5)
def only_regular_files_are_read_and_replaced(subject: Subject) -> None:
    """A pipe may block a reader forever, and a device has no end."""
    env, name = subject.env, unique("/tmp/dir")
    env.execute_oneshot(f"mkdir {name}; mkfifo {name}/pipe; ln -s pipe {name}/link")
    with tempfile.TemporaryDirectory() as here:
        source = Path(here, "file")
        source.write_text("x")
        for path, act in (
            (f"{name}/pipe", lambda: env.read_bytes(f"{name}/pipe")),
            (f"{name}/link", lambda: env.get_file(f"{name}/link", source)),
            ("/dev/zero", lambda: env.read_bytes("/dev/zero")),
            (f"{name}/pipe", lambda: env.write_bytes(f"{name}/pipe", b"x")),
            (f"{name}/link", lambda: env.put_file(source, f"{name}/link")),
        ):
            _expect_terminal_error(path, act)
        expect(source.read_text() == "x", "nothing is written here")
    listing = env.execute_oneshot(f"cd {name} && ls -A && [ -p pipe ] && [ -L link ] && echo kept").output
    expect(listing.split() == ["link", "pipe", "kept"], "the pipe is kept, and nothing is left beside it", listing)
    _remove(env, name)


@check(5)
def no_program_gets_another_user_by_being_copied(subject: Subject) -> None:
    env, name = subject.env, unique("/tmp/dir")
    with tempfile.TemporaryDirectory() as here:
        top = Path(here, "source")
        top.mkdir()
        (top / "program").write_text("x")
        (top / "program").chmod(0o6755)
        env.put_file(top / "program", f"{name}/file")
        env.put_dir(top, f"{name}/dir")
        modes = env.execute_oneshot(f"stat -c %a {name}/file {name}/dir/program").output
        expect(modes == "755\n755\n", "they stay here", modes)
        env.execute_oneshot(f"chmod 6755 {name}/file {name}/dir/program")
        env.get_file(f"{name}/file", Path(here, "file"))
        env.get_dir(f"{name}/dir", Path(here, "dir"))
        for path in (Path(here, "file"), Path(here, "dir", "program")):
            expect(stat.S_IMODE(path.stat().st_mode) == 0o755, "they stay there", oct(path.stat().st_mode))
    _remove(env, name)


@check(5)
def what_a_command_reads_is_in_no_file_any_more(subject: Subject) -> None:
    for run in (subject.env.execute, subject.env.execute_oneshot):
        result = run("readlink /proc/self/fd/0; cat", stdin="secret")
        place, _, text = result.output.partition("\n")
        expect(text == "secret" and (place.endswith(" (deleted)") or not place.startswith("/")), "it is gone", result)


def _expect_terminal_error(path: str, act: Callable[[], object]) -> None:
    with expect_raised(TerminalError, f"{path} raises TerminalError") as raised:
        act()
    expect(path in str(raised[0]), "the path is named", raised)


def _remove(env: BaseEnvironment, path: str) -> None:
    env.execute_oneshot(f"chmod -R u+w {shlex.quote(path)}; rm -r {shlex.quote(path)}")


@check(5)
def entries_are_listed_and_looked_at(subject: Subject) -> None:
    env, name = subject.env, unique("/tmp/dir")
    env.mkdir(f"{name}/sub/deep", mode=0o750)
    env.write_bytes(f"{name}/-rf", b"12345")
    env.execute_oneshot(f"cd {name} && chmod 640 ./-rf && touch -d @1000000000 ./-rf && ln -s '//x -> y' 'li -> nk'")
    env.execute_oneshot(f"cd {name} && mkfifo pipe && ln -s sub near")
    for odd in ("a 'b' \"c\" $d", "two\nlines", "caf\udce9"):
        env.write_bytes(f"{name}/{odd}", b"")
    found = env.list_dir(name)
    names = [entry.name for entry in found]
    want = sorted(("-rf", "sub", "li -> nk", "pipe", "near", "a 'b' \"c\" $d", "two\nlines", "caf\udce9"))
    expect(names == want, f"the names are {want!r}", names)
    expect(all(entry.path == f"{name}/{entry.name}" for entry in found), "each has its path")
    by_name = {entry.name: entry for entry in found}
    kinds = {name: by_name[name].kind for name in ("-rf", "sub", "li -> nk", "pipe", "near")}
    wanted = {"-rf": "file", "sub": "directory", "li -> nk": "symlink", "pipe": "other", "near": "symlink"}
    expect(kinds == wanted, f"the kinds are {wanted}", kinds)
    file = by_name["-rf"]
    known = (file.size, file.mode, file.modified, file.uid)
    uid = int(env.execute_oneshot("id -u").output)
    expect(known == (5, 0o640, 1_000_000_000, uid), "size, mode, time and owner are known", file)
    expect(by_name["li -> nk"].link_target == "//x -> y", "so is what a link points to", by_name["li -> nk"])
    for odd in want:
        expect(env.stat(f"{name}/{odd}", follow_symlinks=False) == by_name[odd], f"{odd!r} is the same to stat")
    expect(env.stat(f"{name}/near").is_dir and env.stat(f"{name}/near").link_target is None, "a link is followed")
    modes = env.stat(f"{name}/sub/deep").mode, env.stat(f"{name}/sub").is_dir
    expect(modes == (0o750, True), "a directory is made with its parents and its mode", modes)
    env.remove(name, recursive=True)
    expect(not env.exists(name), "all of it is removed")


@check(5)
def what_is_removed_is_no_more_than_was_asked_for(subject: Subject) -> None:
    env, name = subject.env, unique("/tmp/dir")
    env.write_bytes(f"{name}/kept/file", b"x")
    env.execute_oneshot(
        f"cd {shlex.quote(name)} && ln -s kept link && ln -s none broken && mkdir top && ln -s ../kept top/in"
    )
    expect(env.exists(f"{name}/link") and not env.exists(f"{name}/broken"), "a link to nothing is not something")
    env.remove(f"{name}/link")
    env.remove(f"{name}/broken")
    env.remove(f"{name}/top", recursive=True)
    env.remove(f"{name}/none", missing_ok=True)
    for path in ("/", "//", "/tmp/..", "."):
        with expect_raised(ValueError, f"{path} is not removed") as raised:
            env.remove(path, recursive=True)
        expect(path in str(raised[0]), "the path is named", raised)
    left = [(entry.name, [inner.name for inner in env.list_dir(entry.path)]) for entry in env.list_dir(name)]
    expect(left == [("kept", ["file"])], "what links point to is kept", left)
    env.remove(name, recursive=True)


@check(5)
def the_beginning_of_a_file_is_read(subject: Subject) -> None:
    env, name = subject.env, unique("/tmp/file")
    data = bytes(range(256)) * 4000
    env.write_bytes(name, data)
    for limit in (0, 1, 100_000, 600_000, 2_000_000):
        expect(env.read_bytes(name, limit=limit) == data[:limit], f"{limit} bytes are read")
    version = env.read_bytes("/proc/version")
    expect(len(version) > 5 and env.read_bytes("/proc/version", limit=5) == version[:5], "/proc has its files", version)
    with expect_raised(ValueError, "a limit below 0 is a ValueError") as raised:
        env.read_bytes(name, limit=-1)
    expect("limit" in str(raised[0]), "the limit is named", raised)
    env.remove(name)


@check(5)
def what_is_in_a_files_way_is_told_by_type(subject: Subject) -> None:
    env, name = subject.env, unique("/tmp/dir")
    env.write_bytes(f"{name}/file", b"x")
    with tempfile.TemporaryDirectory() as here:
        folder = Path(here)
        (folder / "source").write_bytes(b"x")
        for kind, number, path, acts in _cases(env, name, folder):
            for act in acts:
                _expect_error(subject, kind, number, path, act)
        expect(sorted(path.name for path in folder.iterdir()) == ["source"], "nothing is made here")
    left = sorted(entry.name for entry in env.list_dir(name))
    expect(left == ["file"], "nothing is made there", left)
    env.remove(name, recursive=True)


def _cases(
    env: BaseEnvironment, name: str, here: Path
) -> tuple[tuple[type[TargetFileError], int, str, tuple[Act, ...]], ...]:
    missing, through, file = f"{name}/none", f"{name}/file/none", f"{name}/file"
    source, target = here / "source", here / "target"
    reading = (
        env.read_bytes,
        lambda path: env.read_bytes(path, limit=1),
        lambda path: env.get_file(path, target),
        lambda path: env.get_dir(path, target),
        env.stat,
        env.list_dir,
        env.remove,
    )
    writing = (
        lambda path: env.write_bytes(path, b"x"),
        lambda path: env.write_bytes(path, bytes(100_000)),
        lambda path: env.put_file(source, path),
        lambda path: env.put_dir(here, path),
        env.mkdir,
    )
    return (
        (TargetFileNotFoundError, errno.ENOENT, missing, _on(missing, reading)),
        (
            TargetFileNotFoundError,
            errno.ENOENT,
            f"{missing}/none",
            (lambda: env.mkdir(f"{missing}/none", parents=False),),
        ),
        (TargetNotADirectoryError, errno.ENOTDIR, through, _on(through, (*reading, *writing))),
        (TargetNotADirectoryError, errno.ENOTDIR, file, _on(file, (reading[3], reading[5], writing[3]))),
        (TargetIsADirectoryError, errno.EISDIR, name, _on(name, (*reading[:3], reading[6], *writing[:3]))),
        (TargetIsADirectoryError, errno.EISDIR, f"{missing}/", _on(f"{missing}/", writing[:3])),
        (TargetFileExistsError, errno.EEXIST, file, _on(file, (writing[4],))),
        (TargetFileExistsError, errno.EEXIST, name, (lambda: env.mkdir(name, exist_ok=False),)),
    )


def _on(path: str, calls: tuple[Callable[[str], object], ...]) -> tuple[Act, ...]:
    return tuple(lambda call=call: call(path) for call in calls)


@check(5)
def what_a_user_may_not_do_is_told_by_type(subject: Subject) -> None:
    env, name = subject.env, unique("/tmp/dir")
    if env.execute_oneshot("id -u").output == "0\n":
        return
    env.execute_oneshot(f"mkdir -p {name}/shut {name}/fixed; echo x >{name}/secret; cd {name}")
    env.execute_oneshot(f"cd {name}; echo x >shut/file; echo x >fixed/file; chmod 0 shut secret; chmod 555 fixed")
    try:
        for path, acts in (
            (f"{name}/secret", (env.read_bytes,)),
            (f"{name}/shut/file", (env.read_bytes, env.stat, env.exists, env.remove, env.list_dir, env.mkdir)),
            (f"{name}/shut", (env.list_dir,)),
            (f"{name}/fixed/new", (env.mkdir, lambda path: env.write_bytes(path, b"x"))),
            (f"{name}/fixed/new/new", (env.mkdir, lambda path: env.write_bytes(path, b"x"))),
            (f"{name}/fixed/file", (env.remove,)),
            (f"{name}/fixed", (lambda path: env.remove(path, recursive=True),)),
        ):
            for act in acts:
                _expect_error(subject, TargetPermissionError, errno.EACCES, path, lambda act=act, path=path: act(path))  # type: ignore[misc]
    finally:
        env.execute_oneshot(f"chmod -R u+rwx {name}; rm -rf {name}")


@check(5)
def a_file_that_cannot_be_written_ends_nothing_else(subject: Subject) -> None:
    """A failed write must not end the shell that other programs of the target depend on."""
    env, name = subject.env, unique("/tmp/dir")
    env.execute_oneshot(f"mkdir {name}; mkfifo {name}/pipe")
    process = env.start("sleep 321")
    with tempfile.TemporaryDirectory() as here:
        source = Path(here, "file")
        source.write_bytes(b"x" * 100_000)
        with expect_raised(TerminalError, "it is not written"):
            env.put_file(source, f"{name}/pipe")
        expect_output(env, "sleep 2; echo on", "on\n")
        expect(process.running, "what runs beside runs on", process.poll())
    process.kill()
    env.remove(name, recursive=True)


def _expect_error(subject: Subject, kind: type[TargetFileError], number: int, path: str, act: Act) -> None:
    with expect_raised(TargetFileError, f"{path} raises {kind.__name__}") as raised:
        act()
    error, backend = raised[0], subject.env.settings.env
    expect(type(error) is kind, f"{path} raises {kind.__name__}", error)
    expect(error.errno == number and error.filename == path, "errno and filename are set", error)
    expect(path in str(error) and repr(backend) in str(error), "path and backend are named", str(error))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own data
    expect((type(again), str(again), again.errno) == (kind, str(error), number), "it can be pickled", again)

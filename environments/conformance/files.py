"""Moving files. They are no line of the contract of their own; scripts and standard input rest on them."""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from environments.base import BaseEnvironment
from environments.conformance.check import Check, Subject, expect, unique
from environments.errors import TerminalError

SIZES = (0, 1, 1000, 200_000, 3_000_000)


def bytes_written_are_read_back(subject: Subject) -> None:
    """Of any size, into directories that are made for them."""
    env, name = subject.env, unique("a 'b\" $c")
    for size in SIZES:
        data = os.urandom(size)
        env.write_bytes(f"/tmp/{name}/sub/file", data)
        expect(env.read_bytes(f"/tmp/{name}/sub/file") == data, f"{size} bytes come back")
    _remove(env, f"/tmp/{name}")


def files_are_copied_with_their_mode(subject: Subject) -> None:
    """Both ways."""
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


def replacing_a_file_keeps_its_mode_and_its_link(subject: Subject) -> None:
    """And leaves nothing beside it."""
    env, name = subject.env, unique("/tmp/dir")
    env.write_bytes(f"{name}/file", b"old")
    env.execute_oneshot(f"chmod 640 {name}/file; ln -s file {name}/link")
    env.write_bytes(f"{name}/link", b"new")
    expect(env.read_bytes(f"{name}/file") == b"new", "the link was followed")
    listing = env.execute_oneshot(f"stat -c %a {name}/file; readlink {name}/link; ls -a {name}").output
    expect(listing.split() == ["640", "file", ".", "..", "file", "link"], "mode and link are kept", listing)
    _remove(env, name)


def paths_may_be_relative_or_of_the_home(subject: Subject) -> None:
    """Relative to the session's directory."""
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


def what_cannot_be_read_or_written_says_why(subject: Subject) -> None:
    """With the error of its kind, and the target's own reason."""
    env = subject.env
    try:
        env.read_bytes("/no/such/file")
    except FileNotFoundError as error:
        expect("/no/such/file" in str(error), "the path is named", str(error))
    else:
        expect(False, "a missing file raises FileNotFoundError")
    with tempfile.TemporaryDirectory() as here:
        try:
            env.get_file("/no/such/file", Path(here, "new", "file"))
        except FileNotFoundError:
            expect(not Path(here, "new").exists(), "a file that is not there leaves nothing here")
        else:
            expect(False, "a missing file raises FileNotFoundError")
    for path, act in (
        ("/tmp", lambda: env.read_bytes("/tmp")),
        ("/tmp", lambda: env.write_bytes("/tmp", b"x")),
        ("/proc/none", lambda: env.write_bytes("/proc/none", b"x")),
    ):
        _expect_terminal_error(path, act)


def directories_are_copied_there_and_back(subject: Subject) -> None:
    """With what is in them: links as links, permissions, and times in whole seconds."""
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
        env.put_dir(top, name)  # once more, over what is not to be written to
        _remove(env, name)
        try:
            env.get_dir(name, Path(here, "never"))
        except FileNotFoundError as error:
            expect(name in str(error), "the path is named", str(error))
        else:
            expect(False, "a missing directory raises FileNotFoundError")


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
    """Return permissions, time and contents of all that is in a directory. Not every tar knows times of links."""
    found = {}
    for path in top.rglob("*"):
        status = path.lstat()
        if path.is_symlink():
            found[str(path.relative_to(top))] = 0, 0, hash(path.readlink())
        else:
            data = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(top))] = status.st_mode, int(status.st_mtime), hash(data)
    return found


def files_that_are_unchanged_are_left_out(subject: Subject) -> None:
    """Of a directory, both ways, if asked for. What has another size or time is copied."""
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


def only_regular_files_are_read_and_replaced(subject: Subject) -> None:
    """A pipe could be waited for without end, and a device have no end."""
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


def no_program_gets_another_user_by_being_copied(subject: Subject) -> None:
    """Set-user-ID and set-group-ID stay behind, both ways."""
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


def what_a_command_reads_is_in_no_file_any_more(subject: Subject) -> None:
    """Of which others could make a copy."""
    for run in (subject.env.execute, subject.env.execute_oneshot):
        result = run("readlink /proc/self/fd/0; cat", stdin="secret")
        place, _, text = result.output.partition("\n")
        expect(text == "secret" and (place.endswith(" (deleted)") or not place.startswith("/")), "it is gone", result)


def _expect_terminal_error(path: str, act: Callable[[], object]) -> None:
    try:
        act()
    except TerminalError as error:
        expect(path in str(error), "the path is named", str(error))
    else:
        expect(False, f"{path} raises TerminalError")


def _remove(env: BaseEnvironment, path: str) -> None:
    env.execute_oneshot(f"chmod -R u+w {shlex.quote(path)}; rm -r {shlex.quote(path)}")


CHECKS = tuple(
    Check(5, run)
    for run in (
        bytes_written_are_read_back,
        files_are_copied_with_their_mode,
        replacing_a_file_keeps_its_mode_and_its_link,
        paths_may_be_relative_or_of_the_home,
        what_cannot_be_read_or_written_says_why,
        directories_are_copied_there_and_back,
        files_that_are_unchanged_are_left_out,
        only_regular_files_are_read_and_replaced,
        no_program_gets_another_user_by_being_copied,
        what_a_command_reads_is_in_no_file_any_more,
    )
)

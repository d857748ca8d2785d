"""Moving files. They are no line of the contract of their own; scripts and standard input rest on them."""

from __future__ import annotations

import os
import tempfile
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
    for path, act in (
        ("/tmp", lambda: env.read_bytes("/tmp")),
        ("/tmp", lambda: env.write_bytes("/tmp", b"x")),
        ("/proc/none", lambda: env.write_bytes("/proc/none", b"x")),
    ):
        try:
            act()
        except TerminalError as error:
            expect(path in str(error), "the path is named", str(error))
        else:
            expect(False, f"{path} raises TerminalError")


def _remove(env: BaseEnvironment, path: str) -> None:
    quoted = path.replace("'", "'\\''")
    env.execute_oneshot(f"rm -r '{quoted}'")


CHECKS = tuple(
    Check(5, run)
    for run in (
        bytes_written_are_read_back,
        files_are_copied_with_their_mode,
        replacing_a_file_keeps_its_mode_and_its_link,
        paths_may_be_relative_or_of_the_home,
        what_cannot_be_read_or_written_says_why,
    )
)

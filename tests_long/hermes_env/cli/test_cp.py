"""`hermes-env cp`: files and folders both ways, on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.command_line import WORDS, OpenTerminal, Start, in_this_process

from environments import BaseEnvironment, TerminalError, create_environment
from environments.conformance.check import wait_until
from hermes_env.cli.copying import CopyRoute, download, download_stream, place_in, route_of, upload, upload_stream
from hermes_env.cli.streams import LiveOutput

Copies = Callable[[str, str], None]


class CopyTarget:
    """A target of copies: its options, and an environment to inspect the files."""

    def __init__(self, environment: BaseEnvironment, options: tuple[str, ...], folder: str) -> None:
        self.environment = environment
        self.options = (*options, "--cwd", folder)
        self.folder = folder

    def made(self, name: str, data: bytes = b"there") -> str:
        """Write a file, and return the path."""
        self.environment.write_bytes(f"{self.folder}/{name}", data)
        return f"{self.folder}/{name}"

    def read(self, name: str) -> bytes:
        return self.environment.read_bytes(f"{self.folder}/{name}")

    def names(self, name: str = ".") -> list[str]:
        return [entry.name for entry in self.environment.list_dir(f"{self.folder}/{name}")]


@pytest.fixture(scope="module")
def target() -> Iterator[BaseEnvironment]:
    with create_environment("local") as environment:
        yield environment


@pytest.fixture
def copy_target(target: BaseEnvironment, tmp_path: Path) -> CopyTarget:
    folder = f"{tmp_path}/there"
    target.mkdir(folder)
    return CopyTarget(target, ("-b", "local"), folder)


@pytest.fixture
def cp(copy_target: CopyTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copies:
    """Copies like the command, in this process and in an existing environment."""
    monkeypatch.chdir(tmp_path)

    def copy(source: str, destination: str) -> None:
        route = route_of(source, destination)
        if route.is_upload:
            upload(copy_target.environment, route.source, route.destination)
        else:
            download(copy_target.environment, route.source, route.destination)

    return copy


def copied(done: subprocess.CompletedProcess[str]) -> bool:
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return True


def test_a_file_goes_there_and_back_with_its_permissions(hermes_env, copy_target: CopyTarget, tmp_path: Path) -> None:
    data = os.urandom(300_000)
    (tmp_path / "a file").write_bytes(data)
    (tmp_path / "a file").chmod(0o750)
    assert copied(hermes_env("cp", *copy_target.options, "a file", f":{copy_target.folder}/made/on the way/copy"))
    assert copy_target.read("made/on the way/copy") == data
    assert copied(hermes_env("cp", *copy_target.options, ":made/on the way/copy", "back"))
    assert (tmp_path / "back").read_bytes() == data
    assert (tmp_path / "back").stat().st_mode & 0o777 == 0o750


def test_a_copy_to_a_directory_goes_into_the_directory(cp: Copies, copy_target: CopyTarget, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("here")
    copy_target.made("folder/two")
    (tmp_path / "own").mkdir()
    cp("one", f":{copy_target.folder}/folder")
    cp("one", f":{copy_target.folder}/new folder/")
    assert copy_target.names("folder") == ["one", "two"] and copy_target.names("new folder") == ["one"]
    cp(f":{copy_target.folder}/folder/two", "own")
    cp(f":{copy_target.folder}/folder/two", "new/")
    assert (tmp_path / "own/two").read_text() == (tmp_path / "new/two").read_text() == "there"


def test_a_directory_goes_with_all_that_is_in_it(cp: Copies, copy_target: CopyTarget, tmp_path: Path) -> None:
    source, copy = tmp_path / "source", f":{copy_target.folder}/copy"
    (source / "deep/er").mkdir(parents=True)
    (source / "deep/er/file").write_text("here")
    (source / "link").symlink_to("deep/er/file")
    cp("source", copy)
    assert copy_target.names("copy") == ["deep", "link"] and copy_target.read("copy/link") == b"here"
    cp("source", copy)
    assert copy_target.names("copy") == ["deep", "link", "source"], "once more, to what is there now"
    cp("source/.", f"{copy}/source/deep")
    assert copy_target.names("copy/source/deep") == ["deep", "er", "link"], "what is in it, and not itself"
    cp(f"{copy}/source", "back")
    cp(f"{copy}/source", "back")
    assert (tmp_path / "back/source/deep/er/file").read_text() == "here"
    assert (tmp_path / "back/link").readlink() == Path("deep/er/file")
    (tmp_path / "around").mkdir()
    cp(f"{copy}/source/.", "around")
    assert sorted(path.name for path in (tmp_path / "around").iterdir()) == ["deep", "link"]


def test_a_stream_goes_there_and_comes_from_there(hermes_env, copy_target: CopyTarget) -> None:
    text = "line\n" * 100_000
    assert copied(hermes_env("cp", *copy_target.options, "-", ":new/it's", stdin=text))
    assert copy_target.read("new/it's") == text.encode()
    done = hermes_env("cp", *copy_target.options, ":new/it's", "-")
    assert (done.stdout == text, done.returncode, done.stderr) == (True, 0, "")


def stream_to(copy_target: CopyTarget, path: str, data: bytes) -> None:
    ours, theirs = os.pipe()
    try:
        os.write(theirs, data)
        os.close(theirs)
        upload_stream(copy_target.environment, ours, path)
    finally:
        os.close(ours)


NOT_COPIED = [
    (":THERE/missing", "here", "No such file or directory"),
    ("missing", ":THERE/there", "cannot read missing: No such file or directory"),
    ("file/", ":THERE/there", "cannot read file/: Not a directory"),
    ("folder", ":THERE/file", "Not a directory"),
    (":THERE/folder", "file", "cannot write file: Not a directory"),
    ("folder", ":THERE/file/below", "Not a directory"),
    ("file", ":THERE/into", "Is a directory"),
    ("file", ":THERE/file/", "Not a directory"),
    (":THERE/pipe", "here", "it is not a regular file"),
    ("pipe", ":THERE/here", "it is not a regular file"),
]


def test_what_cannot_be_copied_is_an_error(cp: Copies, copy_target: CopyTarget, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("here")
    os.mkfifo(tmp_path / "pipe")
    copy_target.environment.execute_oneshot(
        f"cd '{copy_target.folder}' && mkdir -p folder into/file && echo >file && mkfifo pipe"
    )
    for source, destination, said in NOT_COPIED:
        with pytest.raises(TerminalError, match=re.escape(said)):
            cp(source.replace("THERE", copy_target.folder), destination.replace("THERE", copy_target.folder))
    assert copy_target.names() == ["file", "folder", "into", "pipe"] and copy_target.names("into") == ["file"]
    assert not (tmp_path / "here").exists()


def test_a_directory_and_a_pipe_are_no_stream(
    copy_target: CopyTarget, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    copy_target.environment.execute_oneshot(f"cd '{copy_target.folder}' && mkdir folder && mkfifo pipe")
    output = LiveOutput(lambda: None)
    for name, said in (("folder", "use `hermes-env exec -- tar -C "), ("pipe", "it is not a regular file")):
        with pytest.raises(TerminalError, match=said):
            download_stream(copy_target.environment, f"{copy_target.folder}/{name}", output)
    for name in ("folder", "missing/"):
        with pytest.raises(TerminalError, match="it is a directory; name a file in it"):
            stream_to(copy_target, f"{copy_target.folder}/{name}", b"")
    assert capfdbinary.readouterr().out == b""


def test_one_side_and_only_one_is_in_the_target() -> None:
    for source, destination, said in (
        ("a", "b", "both are on this machine; write : before"),
        ("-", "b", "both are on this machine; write : before"),
        (":a", ":b", "both are in the target; use `hermes-env exec -- cp -R a b`"),
        ("", ":b", "a path is empty"),
    ):
        with pytest.raises(TerminalError, match=re.escape(said)):
            route_of(source, destination)


def test_a_mark_alone_is_the_directory_where_the_session_starts() -> None:
    assert route_of(":", "here") == CopyRoute(".", "here", is_upload=False)
    assert route_of("./:odd", ":") == CopyRoute("./:odd", ".", is_upload=True)


def test_an_error_is_one_line(hermes_env) -> None:
    done = hermes_env("cp", ":/missing/file", "here")
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr == "hermes-env: cannot look at /missing/file on backend 'local': No such file or directory\n"


def test_control_c_ends_the_copy_and_leaves_no_part(
    start_hermes_env: Start, copy_target: CopyTarget, variables: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    variables["TMPDIR"] = f"{tmp_path}/tmp"
    copying = start_hermes_env("cp", *copy_target.options, "-", ":new", stdin=subprocess.PIPE)
    assert wait_until(lambda: bool(list(tmp_path.glob("tmp/hermes-cp-*"))), 60)
    copying.send_signal(signal.SIGINT)
    assert copying.wait(60) == 130
    assert copying.stderr and copying.stderr.read() == b"hermes-env: ended by Ctrl-C\n"
    assert copy_target.names() == [] and not list((tmp_path / "tmp").iterdir())


def test_a_reader_that_leaves_ends_the_copy(copy_target: CopyTarget, variables: dict[str, str], tmp_path: Path) -> None:
    copy_target.environment.execute_oneshot(f"head -c 4000000 /dev/zero >'{copy_target.folder}/large'")
    reader, writer = os.pipe()
    words = ("cp", *copy_target.options, ":large", "-")
    with open(reader, "rb") as reads, open(writer, "wb") as out, Path("/dev/null").open("r+b") as nothing:
        thread = threading.Thread(target=lambda: (reads.read(10), reads.close()))
        thread.start()
        assert in_this_process(words, variables, tmp_path, nothing, out, nothing) == 141
        thread.join()


def test_a_user_sees_the_progress_of_a_copy(
    open_terminal: OpenTerminal, copy_target: CopyTarget, tmp_path: Path
) -> None:
    """A pipe without a reader blocks the copy until the progress has been seen."""
    copy_target.environment.execute_oneshot(f"head -c 40000000 /dev/zero >'{copy_target.folder}/large'")
    os.mkfifo(tmp_path / "out")
    to_pipe = ("sh", "-c", f'"$@" >{tmp_path}/out', "sh", *WORDS)
    user = open_terminal("cp", *copy_target.options, ":large", "-", program=to_pipe)
    with (tmp_path / "out").open("rb") as out:
        user.expect("downloading large.*/40.0 MB")
        assert len(out.read()) == 40_000_000
        assert user.wait_for_exit() == 0
    assert user.all.endswith(b"\x1b[2K"), "and it is gone again"


def test_the_name_of_a_copy_is_that_of_its_source() -> None:
    places = {
        ("/x", "a/b"): "/x/b",
        ("/x", "a/b/"): "/x/b",
        ("/x/", "b"): "/x/b",
        (".", "/b"): "./b",
        ("~", "b"): "~/b",
        ("/x", "a/."): "/x",
        ("/x", ".."): "/x",
        ("/x", "/"): "/x",
        ("/x", "~"): "/x",
        ("/x", "~/"): "/x",
        ("/x", "~/b"): "/x/b",
    }
    assert {(directory, source): place_in(directory, source) for directory, source in places} == places

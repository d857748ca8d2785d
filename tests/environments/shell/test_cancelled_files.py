"""Files whose transfer is cut short when a part of them is there: what is left of them, and how soon it is over."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import BinaryIO

import pytest
from targets.local_shells import without_bash
from targets.per_command_local import PerCommandLocal

from environments import BaseEnvironment, CallCancelledError, CancelScope, TerminalError, load_settings
from environments.conformance.check import wait_until
from environments.shell.process import ShellProcess
from environments.shell.transfer import BytesSink
from environments.sink import Channel

LARGE = 3_000_000


def _everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@pytest.fixture
def env(tmp_path: Path):
    """This machine, by the base class's own means."""
    (tmp_path / "there").mkdir()
    with without_bash(tmp_path / "there") as made:
        yield made


@pytest.fixture
def cancelled_half_way(monkeypatch: pytest.MonkeyPatch) -> CancelScope:
    """A scope that is cancelled when half of what a process is first sent has been written."""
    scope, write = CancelScope(), ShellProcess.write

    def half(process: ShellProcess, data: bytes) -> None:
        if scope.cancelled or len(data) < 100_000:
            write(process, data)
            return
        write(process, data[: len(data) // 2])
        scope.cancel()
        assert wait_until(lambda: not process.running), "the process goes on"
        write(process, data[len(data) // 2 :])

    monkeypatch.setattr(ShellProcess, "write", half)
    return scope


@pytest.mark.parametrize("name", ["new", "old", "folder/new"])
def test_bytes_on_their_way_are_not_there(
    env: BaseEnvironment, tmp_path: Path, cancelled_half_way: CancelScope, name: str
) -> None:
    (tmp_path / "there/old").write_bytes(b"old")
    with cancelled_half_way.active(), pytest.raises(CallCancelledError):
        env.write_bytes(name, os.urandom(LARGE))
    assert _everything(tmp_path / "there") == {"old"}
    assert env.read_bytes("old") == b"old"


def test_of_a_directory_what_is_complete_stays(
    env: BaseEnvironment, tmp_path: Path, cancelled_half_way: CancelScope
) -> None:
    here, there = tmp_path / "here", tmp_path / "there/new"
    (here / "b").mkdir(parents=True)
    for name, size in {"a": 300_000, "b/large": LARGE, "c": 10}.items():
        (here / name).write_bytes(os.urandom(size))
        os.utime(here / name, (1_000_000_000, 1_000_000_000))
    there.mkdir()
    (there / "c").write_bytes(b"of somebody else")
    with cancelled_half_way.active(), pytest.raises(CallCancelledError):
        env.put_dir(here, str(there))
    assert _everything(there) == {"a", "c"}
    assert (there / "a").read_bytes() == (here / "a").read_bytes()
    assert (there / "c").read_bytes() == b"of somebody else"


def test_a_file_of_which_a_part_has_come_is_given_up(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there/large").write_bytes(os.urandom(LARGE))
    add = BytesSink.add
    for read in (lambda: env.read_bytes("large"), lambda: env.get_file("large", tmp_path / "here")):
        scope = CancelScope()

        def cancelling(sink: BytesSink, channel: Channel, data: bytes, scope: CancelScope = scope) -> None:
            add(sink, channel, data)
            if len(data) > 1000:
                scope.cancel()

        monkeypatch.setattr(BytesSink, "add", cancelling)
        with scope.active(), pytest.raises(CallCancelledError):
            read()
    assert _everything(tmp_path) == {"there/large"}
    assert env.execute("echo works").output == "works\n"


@pytest.mark.parametrize("call", ["read_bytes", "get_file", "put_file", "write_bytes"])
def test_what_meets_cleanup_says_so_and_leaves_no_part(
    env: BaseEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    data = os.urandom(LARGE)
    for name in ("there/large", "here"):
        (tmp_path / name).write_bytes(data)
    cleanup = threading.Thread(target=env.cleanup)

    def end_everything(data: bytes) -> None:
        if len(data) > 1000 and cleanup.ident is None:
            cleanup.start()
            cleanup.join(60)

    for kind, name in ((BytesSink, "add"), (ShellProcess, "write")):
        go_on = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *args, go_on=go_on: (end_everything(args[-1]), go_on(*args)))
    arguments = {"get_file": ("large", tmp_path / "new"), "put_file": (tmp_path / "here", "new")}
    with pytest.raises(TerminalError, match="the environment was cleaned up"):
        getattr(env, call)(*arguments.get(call, ("large", data)[: 1 + (call == "write_bytes")]))
    assert not cleanup.is_alive()
    assert _everything(tmp_path) == {"there/large", "here"}


class Cancelling(PerCommandLocal):
    """A service whose transfers are cancelled when they have begun."""

    scope = CancelScope()

    def put_native(self, source: bytes | Path, path: str) -> None:
        super().put_native(source, path)
        self.scope.cancel()

    def fetch_native(self, path: str, file: BinaryIO) -> None:
        file.write(b"x")
        self.scope.cancel()
        super().fetch_native(path, file)


def test_what_a_service_moves_is_given_up_too(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (tmp_path / "large").write_bytes(os.urandom(LARGE))
    (there / "large").write_bytes(os.urandom(LARGE))
    with Cancelling(load_settings("local", cwd=str(there))) as env:
        scratch = Path(env.scratch_directory())
        before = {path for path in scratch.iterdir() if path.is_file()}
        for call in (
            lambda: env.write_bytes("new", b"x" * LARGE),
            lambda: env.put_file(tmp_path / "large", "new"),
            lambda: env.read_bytes("large"),
            lambda: env.get_file("large", tmp_path / "new"),
        ):
            env.scope = CancelScope()
            with env.scope.active(), pytest.raises(CallCancelledError):
                call()
        assert {path for path in scratch.iterdir() if path.is_file()} == before
        assert env.execute("echo works").output == "works\n"
    assert _everything(tmp_path) == {"large", "there/large"}

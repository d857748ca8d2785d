"""Cancellation and cleanup in the middle of a transfer."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from targets.cut_transfers import call_half_way, cancel_half_way, record_killed_shells
from targets.local_shells import WAYS, local, per_command, without_bash

from environments import BaseEnvironment, TerminalError
from environments.conformance.check import wait_until
from environments.loop import Call, run, spawn
from environments.progress import Progress
from environments.shell.transfer import ReadableOutput, run_reader

Make = Callable[[Path], BaseEnvironment]
LARGE = 3_000_000


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Make a directory with a large file on either side; report progress for each piece."""
    monkeypatch.setattr("environments.progress.INTERVAL", 0)
    here, there = tmp_path / "here", tmp_path / "there"
    for place in (here, there):
        place.mkdir()
        (place / "large").write_bytes(os.urandom(LARGE))
    return here, there


def transfers(env: BaseEnvironment, here: Path, there: Path) -> dict[str, Callable[[], object]]:
    return {
        "put_file to a new one": lambda: env.put_file(here / "large", f"{there}/new"),
        "put_file over an old one": lambda: env.put_file(here / "large", f"{there}/large"),
        "get_file to a new one": lambda: env.get_file(f"{there}/large", here / "new"),
        "get_file over an old one": lambda: env.get_file(f"{there}/large", here / "large"),
        "put_dir": lambda: env.put_dir(here, f"{there}/sub"),
        "get_dir": lambda: env.get_dir(str(there), here / "sub"),
    }


@pytest.mark.parametrize("make", [local, without_bash], ids=lambda make: make.__name__)
def test_a_cancelled_transfer_leaves_no_part_of_a_file(make: Make, tmp_path: Path, places: tuple[Path, Path]) -> None:
    here, there = places
    before = [(place / "large").read_bytes() for place in places]
    with make(tmp_path) as env:
        env.execute("true")
        for name, transfer in transfers(env, here, there).items():
            cancel_half_way(env, transfer)
            assert contents(here) == contents(there) == {"large"}, name
        assert env.execute("echo works").output == "works\n"
    assert [(place / "large").read_bytes() for place in places] == before


@pytest.mark.parametrize("make", [local, without_bash], ids=lambda make: make.__name__)
def test_the_shell_of_a_cancelled_transfer_survives(
    make: Make, tmp_path: Path, places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = places
    killed_shells = record_killed_shells(monkeypatch)
    with make(tmp_path) as env:
        env.execute("true")
        for name, transfer in transfers(env, here, there).items():
            cancel_half_way(env, transfer)
            assert killed_shells == [], name


def test_cleanup_fails_a_running_transfer_and_leaves_no_part(tmp_path: Path, places: tuple[Path, Path]) -> None:
    here, there = places
    with without_bash(tmp_path) as env:
        env.execute("true")
        cleanup = threading.Thread(target=env.cleanup)

        def clean_up() -> None:
            cleanup.start()
            cleanup.join(60)  # does not wait endlessly for the transfer

        call_half_way(env, clean_up)
        with pytest.raises(TerminalError, match="the environment was cleaned up"):
            env.put_file(here / "large", f"{there}/new")
        assert not cleanup.is_alive()
    assert contents(here) == contents(there) == {"large"}


@pytest.mark.parametrize("make", WAYS, ids=lambda make: make.__name__)
def test_progress_is_reported_in_the_waiting_thread_and_the_transfer_waits_for_the_callback(
    make: Make, tmp_path: Path, places: tuple[Path, Path]
) -> None:
    here, there = places
    reported: list[tuple[int, Progress]] = []
    with make(tmp_path) as env:
        env.execute("true")
        env.progress.callback = lambda progress: reported.append((threading.get_ident(), progress))
        for name, transfer in transfers(env, here, there).items():
            reported.clear()
            transfer()
            assert {thread for thread, _ in reported} == {threading.get_ident()}, name
            sizes = [progress.done for _, progress in reported]
            assert sizes == sorted(sizes, key=lambda size: size or 0) and reported[-1][1].complete, name


class Alarm(BaseException):
    """Raised by a signal handler."""


@pytest.mark.parametrize("make", WAYS, ids=lambda make: make.__name__)
def test_an_exception_of_the_progress_callback_ends_the_transfer_and_leaves_nothing(
    make: Make, tmp_path: Path, places: tuple[Path, Path]
) -> None:
    here, there = places

    def fail() -> None:
        raise Alarm

    with make(tmp_path) as env:
        env.execute("true")
        for name, transfer in transfers(env, here, there).items():
            if make is per_command and name.startswith("put_file"):
                continue  # the service takes a file as one piece, without progress half way
            before = contents(here), contents(there), open_files(tmp_path)
            call_half_way(env, fail)
            with pytest.raises(Alarm):
                transfer()
            env.progress.callback = None
            assert wait_until(lambda: (contents(here), contents(there), open_files(tmp_path)) == before), name  # noqa: B023
        assert env.execute("echo works").output == "works\n"


def open_files(folder: Path) -> list[str]:
    """Return the open files of this process under a folder."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(each.readlink()))
    return sorted(path for path in found if path.startswith(str(folder)))


def test_cleanup_within_a_callback_ends_the_transfer(tmp_path: Path, places: tuple[Path, Path]) -> None:
    here, there = places
    for number, make in enumerate((local, without_bash)):
        with make(tmp_path) as env:
            env.execute("true")
            call_half_way(env, env.cleanup)
            with pytest.raises(TerminalError, match="the environment was cleaned up"):
                env.put_file(here / "large", f"{there}/new{number}")
        assert contents(there) == {"large"}


def test_a_late_error_of_a_cancelled_transfer_is_no_fault_of_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    async def cancelled(_: Call[None]) -> None:
        ending, go_on = asyncio.Event(), asyncio.Event()
        late: list[asyncio.Task[None] | None] = []

        async def bring(reader: ReadableOutput) -> int:
            late.append(asyncio.current_task())
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                ending.set()
                await go_on.wait()
                raise TerminalError("it ended late") from None

        transfer = spawn(run_reader(bring, lambda reader: None))
        await ending.wait()
        transfer.cancel()
        await asyncio.wait((transfer,))
        go_on.set()
        await asyncio.wait([task for task in late if task])

    run(cancelled)
    gc.collect()
    run(_nothing)
    assert "met a fault" not in caplog.text


async def _nothing(_: Call[None]) -> None:
    """Take a turn of the loop."""

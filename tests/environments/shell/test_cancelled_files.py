"""Transfers that are cancelled, or meet cleanup, when a part of a file has been moved."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from targets.local_shells import local, without_bash

from environments import BaseEnvironment, CallCancelledError, CancelScope, TerminalError
from environments.progress import Progress

Make = Callable[[Path], BaseEnvironment]
LARGE = 3_000_000


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A directory on either side, each with a large file; and progress is told of each piece."""
    monkeypatch.setattr("environments.progress.INTERVAL", 0)
    here, there = tmp_path / "here", tmp_path / "there"
    for place in (here, there):
        place.mkdir()
        (place / "large").write_bytes(os.urandom(LARGE))
    return here, there


def half_way(env: BaseEnvironment, act: Callable[[], object]) -> None:
    """Do something once, when a part of what is moved has been."""
    is_done = threading.Event()

    def look(progress: Progress) -> None:
        if progress.done and progress.done != progress.total and not is_done.is_set():
            is_done.set()
            act()

    env.progress.callback = look


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
def test_a_part_of_a_file_is_never_there(make: Make, tmp_path: Path, places: tuple[Path, Path]) -> None:
    here, there = places
    before = [(place / "large").read_bytes() for place in places]
    with make(tmp_path) as env:
        env.execute("true")
        for name, transfer in transfers(env, here, there).items():
            scope = CancelScope()
            half_way(env, scope.cancel)
            with scope.active(), pytest.raises(CallCancelledError):
                transfer()
            assert contents(here) == contents(there) == {"large"}, name
        assert env.execute("echo works").output == "works\n"
    assert [(place / "large").read_bytes() for place in places] == before


def test_a_transfer_that_meets_cleanup_says_so_and_leaves_no_part(tmp_path: Path, places: tuple[Path, Path]) -> None:
    here, there = places
    with without_bash(tmp_path) as env:
        env.execute("true")
        cleanup = threading.Thread(target=env.cleanup)

        def clean_up() -> None:
            cleanup.start()
            cleanup.join(60)  # which does not wait for the transfer without end

        half_way(env, clean_up)
        with pytest.raises(TerminalError, match="the environment was cleaned up"):
            env.put_file(here / "large", f"{there}/new")
        assert not cleanup.is_alive()
    assert contents(here) == contents(there) == {"large"}

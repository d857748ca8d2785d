"""Pools, over this machine and over `targets.scripted_starts`. All are closed at the end."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from environments import Pool
from environments.pool import backoff
from targets.scripted_starts import BACKEND, ScriptedStartEnvironment, StartScript

MakePool = Callable[..., Pool]


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakePool]:
    """Makes pools of this machine or of other settings, and closes them at the end."""
    made: list[Pool] = []

    def pool(settings: object = None, *numbers: int, **named: object) -> Pool:
        made.append(Pool(settings or {"backend": "local", "cwd": str(tmp_path)}, *numbers, **named))
        return made[-1]

    yield pool
    for each in made:
        each.close()


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[StartScript]:
    """The script of all starts of a test, with a short backoff and a place of their own."""
    monkeypatch.setattr(backoff, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(backoff, "LONGEST_DELAY", 0.05)
    ScriptedStartEnvironment.starts, ScriptedStartEnvironment.place = StartScript(), uuid.uuid4().hex
    yield ScriptedStartEnvironment.starts
    ScriptedStartEnvironment.starts.may_start.set()


@pytest.fixture
def scripted_pool(make: MakePool, starts: StartScript) -> MakePool:
    """Makes pools over scripted starts."""
    return lambda *numbers, **named: make({"backend": BACKEND}, *numbers, **named)

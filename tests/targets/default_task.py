"""The default environment of a model's tool calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from environments import BaseEnvironment, tasks


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BaseEnvironment]:
    """The environment of the task "default": this machine, in a temporary directory."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TERMINAL_ENV", "local")
    monkeypatch.setenv("TERMINAL_CWD", str(work))
    tasks.cleanup_all()
    yield tasks.get_environment()
    tasks.cleanup_all()

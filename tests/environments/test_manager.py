"""One environment for each task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from environments import TerminalError, manager
from environments.manager import cleanup_all, cleanup_environment, get_environment


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("TERMINAL_CWD", str(tmp_path))
    yield
    cleanup_all()


def test_a_task_keeps_its_environment_and_has_it_for_itself() -> None:
    get_environment("a").execute("export WHO=a")
    get_environment("b").execute("export WHO=b")
    assert get_environment("a") is get_environment("a")
    assert get_environment("a").execute("echo $WHO").output == "a\n"


def test_after_cleanup_a_task_begins_anew() -> None:
    first = get_environment("a")
    first.execute("true")
    cleanup_environment("a")
    cleanup_environment("a")
    with pytest.raises(TerminalError, match="cleaned up"):
        first.execute("true")
    assert get_environment("a").execute("echo new").output == "new\n"


def test_an_idle_environment_is_cleaned_up_and_a_busy_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("environments.manager.REAP_INTERVAL", 0.1)
    monkeypatch.setenv("TERMINAL_LIFETIME_SECONDS", "0.5")
    idle, busy = get_environment("idle"), get_environment("busy")
    idle.execute("true")
    process = busy.start("sleep 60")
    deadline = time.monotonic() + 30
    while manager._environments.get("idle") is idle and time.monotonic() < deadline:
        time.sleep(0.1)
    with pytest.raises(TerminalError, match="cleaned up"):
        idle.execute("true")
    assert process.running
    assert get_environment("busy") is busy

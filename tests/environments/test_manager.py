"""One environment for each task."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from environments import BaseEnvironment, TerminalError, manager
from environments.local import LocalEnvironment
from environments.manager import cleanup_all, cleanup_environment, get_environment
from environments.sources import load_settings


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


class RaisingEnvironment(LocalEnvironment):
    """One whose end fails, as that of a backend whose engine is gone."""

    def cleanup(self) -> None:
        super().cleanup()
        raise RuntimeError("the engine is gone")


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> BaseEnvironment:
    with monkeypatch.context() as patched:
        patched.setattr(
            manager, "create_environment", lambda task_id: RaisingEnvironment(load_settings(task_id=task_id))
        )
        return get_environment("raising")


def test_an_environment_that_raises_keeps_no_other_from_being_cleaned_up(
    raising: BaseEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    raising.execute("true")
    other = get_environment("other")
    other.execute("true")
    cleanup_all()
    with pytest.raises(TerminalError, match="cleaned up"):
        other.execute("true")
    assert "'raising' could not be cleaned up: RuntimeError" in caplog.text


def test_the_reaper_survives_an_environment_that_raises(
    monkeypatch: pytest.MonkeyPatch, raising: BaseEnvironment
) -> None:
    monkeypatch.setattr("environments.manager.REAP_INTERVAL", 0.1)
    monkeypatch.setenv("TERMINAL_LIFETIME_SECONDS", "0.5")
    raising.settings = dataclasses.replace(raising.settings, lifetime_seconds=0.1)
    other = get_environment("other")
    other.execute("true")
    deadline = time.monotonic() + 30
    while manager._environments and time.monotonic() < deadline:
        time.sleep(0.1)
    with pytest.raises(TerminalError, match="cleaned up"):
        other.execute("true")

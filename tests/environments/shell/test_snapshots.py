"""Snapshots and forks: checks common to all backends."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from typing import Any

import pytest

from environments import TerminalError, UnsupportedError, create_environment
from environments.loop import in_worker, run, work_of


def test_a_backend_without_snapshots_refuses_before_anything_is_started() -> None:
    with create_environment("local") as env:
        with pytest.raises(UnsupportedError, match="docker"):
            env.snapshot("after-setup")
        with pytest.raises(UnsupportedError, match="docker"):
            env.fork()
        assert not env.is_ready


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "a:b", "ä", "a" * 64, "a\n"])
def test_an_invalid_name_of_a_snapshot_is_refused_with_the_rule(name: str) -> None:
    with create_environment("local") as env, pytest.raises(ValueError, match="letters, digits"):
        env.snapshot(name)


def test_a_late_error_of_a_cancelled_snapshot_is_no_fault_of_the_loop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    taking, failing = threading.Event(), threading.Event()

    def fails(name: str | None) -> str:
        taking.set()
        failing.wait(30)
        raise TerminalError("the container is being removed")

    async def cancel_and_fail(call: Any) -> None:
        waiting = asyncio.ensure_future(snapshot(call, "late"))
        await in_worker(taking.wait, 30)
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert waiting.cancelled()
        failing.set()
        for _ in range(20):
            await asyncio.sleep(0.01)
            gc.collect()

    with create_environment("local") as env:
        env.execute("true")
        monkeypatch.setattr(type(env), "has_snapshots", True)
        monkeypatch.setattr(env, "take_snapshot", fails)
        snapshot = work_of(env.snapshot)
        assert snapshot
        run(cancel_and_fail)
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []

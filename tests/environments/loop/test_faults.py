"""Faults on the loop thread and their effect on other calls."""

from __future__ import annotations

import asyncio
import gc

import pytest
from targets.loop_calls import CallerLeft, end, right
from targets.printed_errors import refusal

from environments import (
    EnvironmentLostError,
    EnvironmentStartError,
    SettingsError,
    TerminalError,
    UnsupportedError,
    loop,
)
from environments.loop import Call, LoopThread


@pytest.mark.parametrize("kind", [CallerLeft, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_callback_on_the_loop_that_raises_is_logged_and_the_loop_goes_on(
    kind: type[BaseException], thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise kind("of a callback")

    thread.soon(fail)
    assert loop.run(right) == "right"
    assert [(record.name, record.levelname) for record in caplog.records] == [("environments.poller", "ERROR")]
    assert f"{kind.__name__}: of a callback" in caplog.text


def test_a_background_task_that_exits_ends_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def leave() -> None:
        raise SystemExit("of a task")

    async def work(call: Call[str]) -> str:
        task = loop.spawn(leave())
        await asyncio.wait({task})
        assert isinstance(task.exception(), SystemExit)
        return "on"

    assert loop.run(work) == "on"
    assert "SystemExit: of a task" in caplog.text


def test_a_background_task_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise CallerLeft("beside")

    async def work(call: Call[None]) -> None:
        loop.spawn(fail())
        await asyncio.sleep(0)

    loop.run(work)
    loop.run(right)
    gc.collect()
    assert "CallerLeft: beside" in caplog.text


@pytest.mark.parametrize("kind", [EnvironmentStartError, SettingsError, UnsupportedError])
def test_a_refusal_is_printed_alone_and_has_its_cause_as_context(kind: type[TerminalError]) -> None:
    def broken(depth: int) -> None:
        if depth:
            broken(depth - 1)
        raise CallerLeft("of a client library")

    async def work(call: Call[None]) -> None:
        try:
            broken(50)
        except CallerLeft as error:
            raise kind("nothing can be started; start it") from error

    assert refusal(lambda: loop.run(work)) == "nothing can be started; start it"
    with pytest.raises(kind) as raised:
        loop.run(work)
    assert str(raised.value.__context__) == "of a client library"
    assert raised.value.__context__ is not None and raised.value.__context__.__traceback__ is not None


def test_another_error_keeps_its_cause() -> None:
    async def work(call: Call[None]) -> None:
        raise EnvironmentLostError("it is gone") from CallerLeft("of a stream")

    with pytest.raises(EnvironmentLostError) as raised:
        loop.run(work)
    assert isinstance(raised.value.__cause__, CallerLeft)


def test_a_loop_whose_thread_cannot_be_started_is_an_error_of_that_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(loop, "_current", None)
    with monkeypatch.context() as full:
        full.setattr("environments.loop._thread.start_new_thread", refuse)
        for _ in range(2):
            with pytest.raises(TerminalError, match="can't start new thread"):
                loop.run(right)
    assert loop.run(right) == "right"
    end(loop.current())

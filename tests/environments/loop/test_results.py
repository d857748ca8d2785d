"""Results and errors of calls."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Awaitable

import pytest
from targets.loop_calls import LONG, CallerLeft, end, in_threads, right

from environments import TerminalError, loop
from environments.loop import Call, LoopThread


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_the_same_error_comes_back_once(kind: type[BaseException]) -> None:
    error = kind("once")

    async def work(call: Call[None]) -> None:
        await asyncio.sleep(0)
        raise error

    with pytest.raises(kind) as raised:
        loop.run(work)
    assert raised.value is error


@pytest.mark.usefixtures("without_collector")
def test_an_error_that_was_handled_keeps_nothing_alive() -> None:
    class Held:
        pass

    references: list[weakref.ref[Held]] = []

    async def work(call: Call[None]) -> None:
        held = Held()
        references.append(weakref.ref(held))
        await asyncio.sleep(0)
        raise ValueError

    with contextlib.suppress(ValueError):
        loop.run(work)
    loop.run(right)  # the loop drops its reference to a call in the next turn
    assert references[0]() is None


@pytest.mark.usefixtures("without_collector")
def test_the_loop_keeps_no_reference_to_a_result() -> None:
    class Held:
        pass

    async def work(call: Call[Held]) -> Held:
        return Held()

    reference = weakref.ref(loop.run(work))
    loop.run(right)
    assert reference() is None


def test_a_coroutine_function_that_raises_before_it_has_a_coroutine() -> None:
    def work(call: Call[None]) -> Awaitable[None]:
        raise CallerLeft

    with pytest.raises(CallerLeft):
        loop.run(work)


def test_a_call_on_the_loops_own_thread_is_refused(thread: LoopThread) -> None:
    async def work(call: Call[str]) -> str:
        assert thread.is_current
        return loop.run(right)

    assert not thread.is_current
    with pytest.raises(TerminalError, match="on the loop thread"):
        loop.run(work)


def test_the_first_calls_at_once_have_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_current", None)
    barrier = threading.Barrier(8)
    loops: list[LoopThread] = []

    def call() -> None:
        barrier.wait(LONG)
        assert loop.run(right) == "right"
        loops.append(loop.current())

    in_threads(*[call] * 8)
    assert loops == [loop.current()] * 8
    end(loop.current())


def test_many_threads_call_at_once() -> None:
    together = asyncio.Event()
    here: list[int] = []

    async def work(call: Call[int]) -> int:
        here.append(len(here))
        if len(here) == 20:
            together.set()
        mine = len(here)
        await together.wait()
        return mine

    results: list[int] = []
    in_threads(*[lambda: results.append(loop.run(work))] * 20)
    assert sorted(results) == list(range(1, 21))

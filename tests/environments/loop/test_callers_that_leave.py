"""Calls whose caller leaves before, during and after the work."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading

import pytest
from targets.loop_calls import (
    LONG,
    OUT,
    Abandoned,
    CallerLeft,
    Resources,
    begin_call,
    callerless_call,
    leaving,
    offer,
    right,
    unfinished_tasks,
    wait_for_ever,
)
from targets.trial import raise_at

from environments import loop
from environments.loop import Call, LoopThread


def test_a_call_left_before_it_began_does_not_run(thread: LoopThread) -> None:
    resources = Resources()

    async def scene(_: Call[None]) -> None:
        before_begin, before_a_step, unheard = (callerless_call(resources.make) for _ in range(3))
        thread.leave(before_begin)
        thread.begin(before_begin)
        assert before_begin.left and before_begin.task is None
        thread.begin(before_a_step)
        thread.left.append(before_a_step)
        thread.abandon()
        thread.left.append(unheard)  # without a wakeup of the loop: another exception came first
        thread.begin(unheard)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert before_a_step.task and before_a_step.task.cancelled()
        assert unheard.task is None
        assert not thread.left

    loop.run(scene)
    assert vars(resources) == vars(Resources())


def test_a_call_left_while_the_loop_was_busy_does_not_run(thread: LoopThread) -> None:
    resources, busy, release = Resources(), threading.Event(), threading.Event()

    def block() -> None:
        busy.set()
        release.wait(LONG)

    places = raise_at(None, lambda: loop.run(resources.make))
    sent = next(place for place in places if "submit deque.append returned" in place)
    thread.soon(block)
    assert busy.wait(LONG)
    try:
        assert raise_at(sent, lambda: loop.run(resources.make))[-1] == sent
    finally:
        release.set()
    assert loop.run(right) == "right"
    assert (resources.made, resources.undone) == ([0], [])


def test_a_call_left_while_it_runs_ends_without_undo() -> None:
    undone: list[object] = []

    async def undo(value: object) -> None:
        undone.append(value)

    work = Abandoned(wait_for_ever)

    async def offer_and_wait(call: Call[None]) -> None:
        call.undo = undo
        offer(call, OUT, b"x")
        await work(call)

    with pytest.raises(CallerLeft):
        loop.run(offer_and_wait, leaving(work.waits))
    assert work.ended.wait(LONG)
    loop.run(right)
    assert undone == []


def test_a_result_is_undone_once(thread: LoopThread) -> None:
    resources = Resources()

    async def scene(_: Call[None]) -> None:
        call = await begin_call(resources.make)
        assert call.done
        for _times in range(3):
            thread.leave(call)
        await asyncio.sleep(0)
        assert await unfinished_tasks() == []

    loop.run(scene)
    assert resources.undone == [0]


def test_a_result_in_spite_of_a_cancellation_is_undone_once(thread: LoopThread) -> None:
    resources = Resources()

    async def stubborn(call: Call[int]) -> int:
        with contextlib.suppress(asyncio.CancelledError):
            await wait_for_ever()
        return await resources.make(call)

    async def scene(_: Call[None]) -> None:
        call = await begin_call(stubborn)
        thread.leave(call)
        await asyncio.sleep(0)
        thread.leave(call)
        assert await unfinished_tasks() == []
        assert call.done

    loop.run(scene)
    assert resources.undone == [0]


def test_an_undo_that_fails_is_logged(caplog: pytest.LogCaptureFixture, thread: LoopThread) -> None:
    async def fail(value: str) -> None:
        raise CallerLeft("not undone")

    async def scene(_: Call[None]) -> None:
        call = await begin_call(right)
        call.undo = fail
        thread.leave(call)
        await asyncio.sleep(0)
        assert await unfinished_tasks() == []

    loop.run(scene)
    gc.collect()
    assert "not undone" in caplog.text

"""What becomes of a call when its caller leaves, by when that is."""

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
    Gone,
    Things,
    alone,
    begun,
    leaving,
    offer,
    others_that_stay,
    right,
    wait_for_ever,
)
from targets.trial import raise_at

from environments import loop
from environments.loop import Call, LoopThread


def test_before_it_began(thread: LoopThread) -> None:
    things = Things()

    async def scene(_: Call[None]) -> None:
        before_begin, before_a_step, unheard = (alone(things.make) for _ in range(3))
        thread.leave(before_begin)
        thread.begin(before_begin)
        assert before_begin.left and before_begin.task is None
        thread.begin(before_a_step)
        thread.left.append(before_a_step)
        thread.abandon()
        thread.left.append(unheard)  # without a word to the loop: another exception came then
        thread.begin(unheard)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert before_a_step.task and before_a_step.task.cancelled()
        assert unheard.task is None
        assert not thread.left

    loop.run(scene)
    assert vars(things) == vars(Things())


def test_before_it_began_while_the_loop_was_busy(thread: LoopThread) -> None:
    things, busy, release = Things(), threading.Event(), threading.Event()

    def block() -> None:
        busy.set()
        release.wait(LONG)

    places = raise_at(None, lambda: loop.run(things.make))
    sent = next(place for place in places if "submit deque.append returned" in place)
    thread.soon(block)
    assert busy.wait(LONG)
    try:
        assert raise_at(sent, lambda: loop.run(things.make))[-1] == sent
    finally:
        release.set()
    assert loop.run(right) == "right"
    assert (things.made, things.undone) == ([0], [])


def test_while_it_runs() -> None:
    undone: list[object] = []

    async def undo(value: object) -> None:
        undone.append(value)

    work = Abandoned(wait_for_ever)

    async def offer_and_wait(call: Call[None]) -> None:
        call.undo = undo
        offer(call, OUT, b"x")
        await work(call)

    with pytest.raises(Gone):
        loop.run(offer_and_wait, leaving(work.waits))
    assert work.ended.wait(LONG)
    loop.run(right)
    assert undone == []


def test_a_result_is_undone_once(thread: LoopThread) -> None:
    things = Things()

    async def scene(_: Call[None]) -> None:
        call = await begun(things.make)
        assert call.done
        for _times in range(3):
            thread.leave(call)
        await asyncio.sleep(0)
        assert await others_that_stay() == []

    loop.run(scene)
    assert things.undone == [0]


def test_a_result_in_spite_of_a_cancellation_is_undone_once(thread: LoopThread) -> None:
    things = Things()

    async def stubborn(call: Call[int]) -> int:
        with contextlib.suppress(asyncio.CancelledError):
            await wait_for_ever()
        return await things.make(call)

    async def scene(_: Call[None]) -> None:
        call = await begun(stubborn)
        thread.leave(call)
        await asyncio.sleep(0)
        thread.leave(call)
        assert await others_that_stay() == []
        assert call.done

    loop.run(scene)
    assert things.undone == [0]


def test_an_undo_that_fails_is_logged(caplog: pytest.LogCaptureFixture, thread: LoopThread) -> None:
    async def fail(value: str) -> None:
        raise Gone("not undone")

    async def scene(_: Call[None]) -> None:
        call = await begun(right)
        call.undo = fail
        thread.leave(call)
        await asyncio.sleep(0)
        assert await others_that_stay() == []

    loop.run(scene)
    gc.collect()
    assert "not undone" in caplog.text

"""Futures with several waiters."""

from __future__ import annotations

import asyncio

import pytest
from targets.loop_calls import NEVER, CallerLeft

from environments import loop
from environments.loop import Call


def test_done_within() -> None:
    async def work(call: Call[None]) -> None:
        turn = asyncio.get_running_loop()
        future = turn.create_future()
        assert not await loop.done_within(future, 0)
        assert not await loop.done_within(future, -1)
        assert not future.done()
        turn.call_soon(future.set_result, "same turn")
        assert await loop.done_within(future, 0)
        assert await loop.done_within(future, 0)
        failed = turn.create_future()
        turn.call_soon(failed.set_exception, CallerLeft())
        assert await loop.done_within(failed, NEVER)
        with pytest.raises(CallerLeft):
            failed.result()

    loop.run(work)


def test_a_cancelled_waiter_does_not_cancel_a_shared_future() -> None:
    async def work(call: Call[None]) -> None:
        future = asyncio.get_running_loop().create_future()
        waiters = [loop.spawn(loop.shielded(future)) for _ in range(3)]
        within = loop.spawn(loop.done_within(future, NEVER))
        await asyncio.sleep(0)
        waiters[0].cancel()
        within.cancel()
        await asyncio.wait({waiters[0], within})
        assert waiters[0].cancelled() and within.cancelled()
        assert not future.done()
        waiters[1].cancel()  # in the same turn as the result
        future.set_result("value")
        await asyncio.wait(waiters)
        assert waiters[1].cancelled()
        assert waiters[2].result() == "value"
        assert await loop.shielded(future) == "value"

    loop.run(work)


def test_each_waiter_of_a_shared_future_gets_its_error() -> None:
    error = CallerLeft()

    async def work(call: Call[None]) -> None:
        future = asyncio.get_running_loop().create_future()
        waiters = [loop.spawn(loop.shielded(future)) for _ in range(2)]
        await asyncio.sleep(0)
        future.set_exception(error)
        await asyncio.wait(waiters)
        assert [waiter.exception() for waiter in waiters] == [error, error]

    loop.run(work)

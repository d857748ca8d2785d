"""Time limits on the loop thread, and futures that several wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from targets.loop_calls import NEVER, Gone, alone, wait_for_ever

from environments import loop
from environments.loop import Call, LoopThread


class TestTimeLimits:
    @pytest.mark.parametrize("first", ["result", "limit"])
    def test_a_limit_in_the_same_turn_as_a_result_is_a_time_out_and_leaves_no_cancellation(self, first: str) -> None:
        async def work(call: Call[str]) -> str:
            turn = asyncio.get_running_loop()
            future = turn.create_future()

            def answer() -> None:
                if not future.done():
                    future.set_result("late")

            async def late() -> None:
                async with asyncio.timeout(None) as scope:
                    acts: list[Callable[[], object]] = [
                        lambda: turn.call_soon(answer),
                        lambda: scope.reschedule(turn.time()),
                    ]
                    for act in acts if first == "result" else reversed(acts):
                        act()
                    await future

            with pytest.raises(TimeoutError):
                await late()
            task = asyncio.current_task()
            assert task and not task.cancelling()
            await asyncio.sleep(0)
            return await loop.in_worker(str, "on")

        assert loop.run(work) == "on"

    def test_a_result_before_the_limit_is_a_result(self) -> None:
        async def work(call: Call[str]) -> str:
            turn = asyncio.get_running_loop()
            async with asyncio.timeout(None) as scope:
                scope.reschedule(turn.time())  # it would come in the next turn
                result = "in time"
            await asyncio.sleep(0)
            assert not scope.expired()
            return result

        assert loop.run(work) == "in time"

    @pytest.mark.parametrize("first", ["leave", "limit"])
    def test_a_caller_that_leaves_in_the_same_turn_as_a_limit_cancels_all_of_the_work(
        self, first: str, thread: LoopThread
    ) -> None:
        met: list[str] = []

        async def scene(_: Call[None]) -> None:
            scopes: list[asyncio.Timeout] = []

            async def work(call: Call[None]) -> None:
                try:
                    async with asyncio.timeout(None) as scope:
                        scopes.append(scope)
                        await wait_for_ever()
                except TimeoutError:
                    met.append("a time-out")
                await asyncio.sleep(0)
                met.append("it went on")

            call = alone(work)
            thread.begin(call)
            await asyncio.sleep(0)
            acts: list[Callable[[], object]] = [
                lambda: thread.leave(call),
                lambda: scopes[0].reschedule(asyncio.get_running_loop().time()),
            ]
            for act in acts if first == "leave" else reversed(acts):
                act()
            assert call.task
            await asyncio.wait({call.task})
            assert isinstance(call.error, asyncio.CancelledError)

        loop.run(scene)
        assert met == []

    def test_done_within(self) -> None:
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
            turn.call_soon(failed.set_exception, Gone())
            assert await loop.done_within(failed, NEVER)
            with pytest.raises(Gone):
                failed.result()

        loop.run(work)

    def test_who_stops_waiting_for_a_shared_future_does_not_cancel_it(self) -> None:
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

    def test_each_who_waits_for_a_shared_future_gets_its_error(self) -> None:
        error = Gone()

        async def work(call: Call[None]) -> None:
            future = asyncio.get_running_loop().create_future()
            waiters = [loop.spawn(loop.shielded(future)) for _ in range(2)]
            await asyncio.sleep(0)
            future.set_exception(error)
            await asyncio.wait(waiters)
            assert [waiter.exception() for waiter in waiters] == [error, error]

        loop.run(work)

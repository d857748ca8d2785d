"""Time limits on the loop thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from targets.loop_calls import begin_call, wait_for_ever

from environments import loop
from environments.loop import Call, LoopThread


@pytest.mark.parametrize("order", [1, -1], ids=["result", "limit"])
def test_a_limit_in_the_same_turn_as_a_result_is_a_time_out_and_leaves_no_cancellation(order: int) -> None:
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
                for act in acts[::order]:
                    act()
                await future

        with pytest.raises(TimeoutError):
            await late()
        task = asyncio.current_task()
        assert task and not task.cancelling()
        await asyncio.sleep(0)
        return await loop.in_worker(str, "on")

    assert loop.run(work) == "on"


def test_a_result_before_the_limit_is_a_result() -> None:
    async def work(call: Call[str]) -> str:
        turn = asyncio.get_running_loop()
        async with asyncio.timeout(None) as scope:
            scope.reschedule(turn.time())  # the time-out would come in the next turn
            result = "in time"
        await asyncio.sleep(0)
        assert not scope.expired()
        return result

    assert loop.run(work) == "in time"


@pytest.mark.parametrize("order", [1, -1], ids=["leave", "limit"])
def test_a_caller_that_leaves_in_the_same_turn_as_a_limit_cancels_all_of_the_work(
    order: int, thread: LoopThread
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

        call = await begin_call(work)
        acts: list[Callable[[], object]] = [
            lambda: thread.leave(call),
            lambda: scopes[0].reschedule(asyncio.get_running_loop().time()),
        ]
        for act in acts[::order]:
            act()
        assert call.task
        await asyncio.wait({call.task})
        assert isinstance(call.error, asyncio.CancelledError)

    loop.run(scene)
    assert met == []

"""What is done in a thread and awaited, on asyncio and on trio."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import anyio
import anyio.to_thread
import pytest

from environments import CancelScope
from environments.cancellation import current_scope
from hermes_env.aio.threads import in_thread, to_its_end

pytestmark = pytest.mark.anyio
LONG = 60.0
"""Seconds that nothing here takes."""


class Waiting:
    """A call that ends with the scope that it is made in, and takes a moment to."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.cancelled = threading.Event()
        self.ended = threading.Event()

    def __call__(self) -> str:
        scope = current_scope()
        assert scope
        with scope.calling(self.cancelled.set):
            self.begun.set()
            assert self.cancelled.wait(LONG)
            assert self.may_end.wait(LONG)
        self.ended.set()
        return "the end"


@pytest.fixture
def limiter() -> anyio.CapacityLimiter:
    return anyio.CapacityLimiter(1)


async def until(event: threading.Event) -> None:
    await anyio.to_thread.run_sync(event.wait, LONG)
    assert event.is_set()


async def test_what_is_returned_comes_back(limiter: anyio.CapacityLimiter) -> None:
    thread = await in_thread(threading.get_ident, limiter=limiter)
    assert thread != threading.get_ident()


async def test_what_is_raised_is_raised_as_it_is(limiter: anyio.CapacityLimiter) -> None:
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 // 0, limiter=limiter)


async def test_context_variables_are_seen(limiter: anyio.CapacityLimiter) -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("of the task")
    assert await in_thread(variable.get, limiter=limiter) == "of the task"


async def test_a_cancelled_task_has_its_call_ended_and_waits_for_that(limiter: anyio.CapacityLimiter) -> None:
    call = Waiting()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: in_thread(call, limiter=limiter))
        await until(call.begun)
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await until(call.cancelled)
            assert limiter.borrowed_tokens == 1
            call.may_end.set()
    assert call.ended.is_set()
    assert limiter.borrowed_tokens == 0


async def test_a_time_limit_is_one_too(limiter: anyio.CapacityLimiter) -> None:
    call = Waiting()
    call.may_end.set()
    with anyio.move_on_after(0.01) as limit:
        await in_thread(call, limiter=limiter)
    assert limit.cancelled_caught
    assert call.ended.is_set() == call.begun.is_set()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_is_cancelled_again_and_again_waits_all_the_same(limiter: anyio.CapacityLimiter) -> None:
    call = Waiting()
    task = asyncio.ensure_future(in_thread(call, limiter=limiter))
    await until(call.begun)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
    call.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert call.ended.is_set()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_time_limits_of_asyncio_end_a_call_too(limiter: anyio.CapacityLimiter) -> None:
    call = Waiting()
    call.may_end.set()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(LONG), asyncio.timeout(0.01):
            await in_thread(call, limiter=limiter)
    assert call.ended.is_set() == call.begun.is_set()


async def test_a_call_that_waits_for_its_turn_is_not_made_once_it_is_cancelled(limiter: anyio.CapacityLimiter) -> None:
    first, second = Waiting(), Waiting()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: in_thread(first, limiter=limiter))
        await until(first.begun)
        with anyio.move_on_after(0.01):
            await in_thread(second, limiter=limiter)
        first.may_end.set()
        group.cancel_scope.cancel()
    assert not second.begun.is_set()


async def test_a_scope_that_is_cancelled_ends_the_call_and_not_the_task(limiter: anyio.CapacityLimiter) -> None:
    call, scope = Waiting(), CancelScope()
    call.may_end.set()
    results = []

    async def wait() -> None:
        results.append(await in_thread(call, limiter=limiter, scope=scope))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await until(call.begun)
        scope.cancel()
    assert results == ["the end"]


async def test_a_call_ends_with_the_scope_that_its_task_is_in(limiter: anyio.CapacityLimiter) -> None:
    call, outer = Waiting(), CancelScope(is_trusted=False)
    call.may_end.set()

    async def wait() -> None:
        with outer.active():
            await in_thread(call, limiter=limiter)
            inner = await in_thread(current_scope, limiter=limiter)
        assert inner and inner is not outer
        assert not inner.is_trusted

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await until(call.begun)
        outer.cancel()


async def test_what_cleans_up_goes_to_its_end(limiter: anyio.CapacityLimiter) -> None:
    done = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await to_its_end(lambda: done.append(current_scope()), limiter=limiter)
    assert scope.cancelled_caught
    assert done == [None]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_cleans_up_goes_to_its_end_whatever_cancels_its_task(limiter: anyio.CapacityLimiter) -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def clean_up() -> None:
        begun.set()
        assert may_end.wait(LONG)
        ended.set()

    task = asyncio.ensure_future(to_its_end(clean_up, limiter=limiter))
    await until(begun)
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()

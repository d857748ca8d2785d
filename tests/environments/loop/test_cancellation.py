"""Cancellation of work whose caller leaves."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from operator import call as call_it
from types import SimpleNamespace
from typing import Any

import pytest
from targets.loop_calls import (
    LONG,
    NEVER,
    OUT,
    WHOLE,
    Abandoned,
    CallerLeft,
    begin_call,
    leaving,
    offer,
    unfinished_tasks,
    wait_for_ever,
)
from targets.signals import raising_at

from environments import loop
from environments.conformance.check import wait_until
from environments.loop import Call, LoopThread

# Places where work can wait. Each is awaited in a call that its caller leaves. `release` unblocks a worker.


async def at_a_future(release: threading.Event) -> None:
    await wait_for_ever()


async def at_sleep(release: threading.Event) -> None:
    await asyncio.sleep(NEVER)


async def in_worker(release: threading.Event) -> None:
    await loop.in_worker(release.wait, LONG)


async def in_timeout(release: threading.Event) -> None:
    async with asyncio.timeout(NEVER):
        await wait_for_ever()


async def at_wait_for(release: threading.Event) -> None:
    await asyncio.wait_for(wait_for_ever(), NEVER)


async def in_a_group(release: threading.Event) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(wait_for_ever())


async def at_gather(release: threading.Event) -> None:
    await asyncio.gather(wait_for_ever(), asyncio.sleep(NEVER))


WAITS = [at_a_future, at_sleep, in_worker, in_timeout, at_wait_for, in_a_group, at_gather]


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: wait.__name__)
def test_an_exception_in_the_callers_thread_cancels_the_work_wherever_it_waits(
    wait: Callable[[threading.Event], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SLICE", 0.01)  # an asynchronous exception does not end a wait for a lock
    release = threading.Event()
    work = Abandoned(lambda: wait(release))
    raised: list[BaseException] = []

    def call() -> None:
        try:
            loop.run(work)
        except CallerLeft as error:
            raised.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    assert work.waits.wait(LONG)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(caller.ident or 0), ctypes.py_object(CallerLeft))
    caller.join(LONG)
    assert len(raised) == 1
    assert work.all_steps() == WHOLE
    release.set()


def test_a_signal_that_raises_cancels_the_work() -> None:
    work = Abandoned(wait_for_ever)

    async def send_and_wait(call: Call[None]) -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGUSR1)
        await work(call)

    with raising_at(signal.SIGUSR1, CallerLeft), pytest.raises(CallerLeft):
        loop.run(send_and_wait)
    assert work.all_steps() == WHOLE


def test_a_signal_that_comes_just_before_the_wait_for_the_lock_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "SLICE", 0.01)
    work = Abandoned(wait_for_ever)

    class LateLock:
        """A lock with a signal just before the wait. Python handles the signal only after the wait."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self.locked, self.release = self._lock.locked, self._lock.release

        def acquire(self, *how: Any) -> bool:
            if not how:
                return self._lock.acquire()
            assert work.waits.wait(LONG)
            # Both are C functions, and `map` calls them without a check for signals in between.
            ring = partial(ctypes.PyDLL(None)["raise"], signal.SIGUSR1)
            return bool(list(map(call_it, (ring, partial(self._lock.acquire, *how))))[1])

    module = SimpleNamespace(get_ident=threading.get_ident, allocate_lock=LateLock)
    monkeypatch.setattr(loop, "_thread", module)
    with raising_at(signal.SIGUSR1, CallerLeft), pytest.raises(CallerLeft):
        loop.run(work)
    assert work.all_steps() == WHOLE


def test_work_is_cancelled_once_however_often_its_caller_leaves(thread: LoopThread) -> None:
    work = Abandoned(wait_for_ever)

    async def scene(_: Call[None]) -> None:
        call = await begin_call(work)
        await loop.in_worker(work.waits.wait, LONG)
        for _times in range(3):
            thread.leave(call)
            await asyncio.sleep(0)
        assert await unfinished_tasks() == []

    loop.run(scene)
    assert work.steps == WHOLE


def test_a_function_whose_caller_has_left_ends_alone_and_its_thread_works_on(
    thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    release, began = threading.Event(), threading.Event()
    names: list[str] = []

    def block() -> None:
        names.append(threading.current_thread().name)
        began.set()
        release.wait(LONG)

    async def work(call: Call[None]) -> None:
        offer(call, OUT, b"x")
        await loop.in_worker(block)

    with pytest.raises(CallerLeft):
        loop.run(work, leaving(began))
    release.set()
    assert wait_until(lambda: len(thread._workers._idle) == 1, LONG)
    assert loop.run(lambda _: loop.in_worker(threading.current_thread)).name == names[0]
    assert not caplog.records

"""An exception at each moment of a call leaves nothing on the loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest
from targets.loop_calls import ERR, LONG, OUT, CallerLeft, Resources, offer, output_of, right, unfinished_tasks
from targets.trial import CallerThread, Place, Raised, raise_at

from environments import loop
from environments.conformance.check import wait_until
from environments.loop import Call
from environments.output import Channel


def raise_twice(first: int, second: int, call: Callable[[], object]) -> tuple[list[Place], bool]:
    """Raise at a moment of a call as `raise_at` does, and again at the start of a later function.

    Returns:
        The places of the moments that passed before the first, and True if there was a second.
    """
    starts, raised = itertools.count(), []

    def trace(frame: FrameType, event: str, argument: object) -> None:
        if sys.getprofile() is None and next(starts) == second:  # `raise_at` has raised
            raised.append(True)
            raise Raised

    def traced() -> None:
        try:
            sys.settrace(trace)
            call()
        finally:
            sys.settrace(None)

    return raise_at(first, traced), bool(raised)


class Moments:
    """Calls interrupted at each moment, with a check of the loop after each call.

    Args:
        act: Makes a call in the caller's thread, with resources of its argument.
    """

    def __init__(self, act: Callable[[Resources], object]) -> None:
        self._act = act
        self._here, self._there = CallerThread(), CallerThread()
        for caller in (self._here, self._there):
            caller.call(lambda: loop.run(right))

    def try_all(self) -> int:
        """Raise at each moment of a call; return the number of moments."""
        for number in itertools.count():
            resources = Resources()
            passed = self._here.call(partial(raise_at, number, partial(self._act, resources)))
            assert not (wrong := self._wrong(resources)), f"at {number}, {passed[-1]}: {wrong}"
            if len(passed) <= number:
                assert resources.got == [0]
                return number
        raise AssertionError

    def try_pairs(self) -> int:
        """Raise at each moment of a call, and at each start of a function from there on."""
        pairs = 0
        for number in itertools.count():
            for second in itertools.count():
                resources = Resources()
                twice = partial(raise_twice, number, second, partial(self._act, resources))
                passed, was_second = self._here.call(twice)
                assert not (wrong := self._wrong(resources)), f"at {number}, {passed[-1]}, and {second}: {wrong}"
                if len(passed) <= number:
                    return pairs
                pairs += 1
                if not was_second:
                    break
        raise AssertionError

    def end(self) -> None:
        """End the threads that call."""
        self._here.end()
        self._there.end()

    def _wrong(self, resources: Resources) -> str:
        for name, caller in (("here", self._here), ("there", self._there)):
            if (value := caller.call(lambda: loop.run(right))) != "right":
                return f"the next call {name} gives {value}"
        if left := self._there.call(lambda: loop.run(lambda _: unfinished_tasks())):
            return f"left on the loop: {left}"
        return resources.lost()


def at_once(resources: Resources) -> None:
    resources.got.append(loop.run(resources.make))


def after_a_worker(resources: Resources) -> None:
    async def work(call: Call[int]) -> int:
        await loop.in_worker(sum, (1, 2))
        return await resources.make(call)

    resources.got.append(loop.run(work))


def with_pieces(resources: Resources) -> None:
    pieces: list[tuple[Channel, bytes]] = []
    got_first = asyncio.Event()

    def take(channel: Channel, data: bytes) -> None:
        pieces.append((channel, data))
        loop.current().soon(got_first.set)

    async def work(call: Call[int]) -> int:
        offer(call, OUT, b"first")
        await got_first.wait()
        offer(call, OUT, b"second")
        offer(call, ERR, b"third")
        return await resources.make(call)

    resources.got.append(loop.run(work, take))
    assert pieces == [(OUT, b"first"), (OUT, b"second"), (ERR, b"third")]


def within_a_callback(resources: Resources) -> None:
    async def work(call: Call[int]) -> int:
        offer(call, OUT, b"piece")
        await asyncio.sleep(0)
        return 0

    loop.run(work, lambda channel, data: at_once(resources))


def after_an_error(resources: Resources) -> None:
    async def fail(call: Call[int]) -> int:
        call.undo = resources.undo
        raise CallerLeft

    with contextlib.suppress(CallerLeft):
        loop.run(fail)
    at_once(resources)


@pytest.mark.parametrize("act", [at_once, after_a_worker, with_pieces, within_a_callback, after_an_error])
def test_an_exception_at_each_moment_leaves_nothing(
    act: Callable[[Resources], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "KEPT_WORKERS", 0)
    monkeypatch.setattr(loop, "IDLE_LIMIT", 0.0)
    before = set(threading.enumerate())
    moments = Moments(act)
    assert moments.try_all() > 10
    moments.end()
    assert wait_until(lambda: set(threading.enumerate()) <= before, LONG)


def test_another_exception_after_the_first_leaves_nothing() -> None:
    moments = Moments(at_once)
    assert moments.try_pairs() > 50
    moments.end()


def test_an_exception_in_the_first_call_of_a_process_leaves_no_second_loop() -> None:
    script = """
        import gc, itertools, os
        from environments import loop
        from environments.conformance.check import wait_until
        from targets.trial import raise_at

        async def right(call):
            return "right"

        def threads():
            return len(os.listdir("/proc/self/task"))

        def descriptors():
            gc.collect()
            return len(os.listdir("/proc/self/fd"))

        gc.disable()  # collections are no part of the call
        before = descriptors()
        for number in itertools.count():
            passed = raise_at(number, lambda: loop.run(right))
            assert loop.run(right) == "right", passed[-1]
            loop._current.stop()
            loop._current.loop.close()
            loop._current = None
            assert wait_until(lambda: threads() == 1, 60), (passed[-1], threads())
            if "socketpair" in passed[-1]:  # an interrupted socketpair() of the standard library leaks descriptors
                before = descriptors()
            assert descriptors() == before, (passed[-1], descriptors(), before)
            if len(passed) <= number:
                break
        print(number)
    """
    assert int(output_of(script, may_complain=True)) > 50  # asyncio warns about half-made loops

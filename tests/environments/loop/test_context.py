"""Context variables of the caller during the work."""

from __future__ import annotations

import asyncio
from functools import partial

from targets.loop_calls import WHO, in_threads

from environments import loop
from environments.loop import Call


def test_a_callers_variables_hold_in_its_work() -> None:
    seen: dict[str, str] = {}

    async def beside() -> None:
        seen["a task beside"] = WHO.get()

    async def work(call: Call[None]) -> None:
        seen["the coroutine"] = WHO.get()
        await asyncio.sleep(0)
        seen["a worker"] = await loop.in_worker(WHO.get)
        await loop.spawn(beside())
        WHO.set("work")
        seen["a worker later"] = await loop.in_worker(WHO.get)
        await loop.in_worker(WHO.set, "worker")
        seen["the coroutine later"] = WHO.get()

    before = WHO.set("caller")
    try:
        loop.run(work)
        assert WHO.get() == "caller"
    finally:
        WHO.reset(before)
    assert seen == {
        "the coroutine": "caller",
        "a worker": "caller",
        "a task beside": "caller",
        "a worker later": "work",
        "the coroutine later": "work",
    }


def test_two_callers_at_once_have_separate_variables() -> None:
    both = asyncio.Event()
    seen: dict[str, list[str]] = {}

    async def work(call: Call[None]) -> None:
        seen[WHO.get()] = []
        if len(seen) == 2:
            both.set()
        await both.wait()
        seen[WHO.get()].append(await loop.in_worker(WHO.get))

    def call_as(name: str) -> None:
        WHO.set(name)
        loop.run(work)

    in_threads(*(partial(call_as, name) for name in ("a", "b")))
    assert seen == {"a": ["a"], "b": ["b"]}

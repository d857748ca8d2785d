"""Worker threads of blocking functions."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest
from targets.loop_calls import LONG

from environments import TerminalError, loop
from environments.conformance.check import wait_until
from environments.loop import Call


def test_a_function_in_a_worker_returns_and_raises() -> None:
    error = KeyError("worker")

    def fail() -> None:
        raise error

    assert loop.run(lambda _: loop.in_worker(divmod, 17, 5)) == (3, 2)
    with pytest.raises(KeyError) as raised:
        loop.run(lambda _: loop.in_worker(fail))
    assert raised.value is error
    with pytest.raises(RuntimeError, match="StopIteration"):
        loop.run(lambda _: loop.in_worker(next, iter(())))


def test_there_are_as_many_workers_as_blocked_functions_and_idle_workers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "IDLE_LIMIT", 0.01)
    barrier = threading.Barrier(50)
    workers: set[threading.Thread] = set()

    def meet() -> None:
        barrier.wait(LONG)
        workers.add(threading.current_thread())

    async def work(call: Call[None]) -> None:
        await asyncio.gather(*(loop.in_worker(meet) for _ in range(50)))

    loop.run(work)
    assert len(workers) == 50
    assert all(worker.daemon for worker in workers)
    alive: set[threading.Thread] = set()

    def some_ended() -> bool:
        alive.clear()
        alive.update(worker for worker in workers if worker.is_alive())
        return len(alive) == loop.KEPT_WORKERS

    assert wait_until(some_ended, LONG)
    assert loop.run(lambda _: loop.in_worker(threading.current_thread)) in alive
    assert some_ended()


def test_functions_one_after_the_other_share_a_worker() -> None:
    async def work(call: Call[set[int]]) -> set[int]:
        return {await loop.in_worker(threading.get_ident) for _ in range(20)}

    assert len(loop.run(work)) == 1


def test_a_worker_that_cannot_be_started_is_an_error_of_that_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    release, began = threading.Event(), threading.Event()

    def block() -> str:
        began.set()
        assert release.wait(LONG)
        return "free"

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def other(call: Call[str]) -> str:
        with pytest.raises(TerminalError, match="can't start new thread"):
            await loop.in_worker(str, "other")
        return "went on"

    results: list[str] = []
    caller = threading.Thread(target=lambda: results.append(loop.run(lambda _: loop.in_worker(block))))
    caller.start()
    assert began.wait(LONG)
    with monkeypatch.context() as full:
        full.setattr(loop.WorkerThread, "start", refuse)
        with pytest.raises(TerminalError, match="can't start new thread"):
            loop.run(lambda _: loop.in_worker(str, "first"))
        assert loop.run(other) == "went on"
        release.set()
        caller.join(LONG)
        assert results == ["free"]
        assert loop.run(lambda _: loop.in_worker(str, "idle again")) == "idle again"
    assert loop.run(lambda _: loop.in_worker(str, "second")) == "second"


def test_a_worker_whose_function_exits_works_on() -> None:
    async def work(call: Call[None]) -> None:
        await loop.in_worker(sys.exit, 3)

    with pytest.raises(SystemExit):
        loop.run(work)
    assert loop.run(lambda _: loop.in_worker(str, "on")) == "on"

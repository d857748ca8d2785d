"""OutputQueue: output on the way to the caller's callback."""

from __future__ import annotations

import asyncio
import threading

import pytest
from targets.loop_calls import (
    ERR,
    LONG,
    OUT,
    WHO,
    WHOLE,
    Abandoned,
    CallerLeft,
    leaving,
    offer,
    right,
    wait_for_ever,
)
from targets.pause_log import PauseLog

from environments import loop
from environments.loop import Call, OutputQueue
from environments.output import Channel


def test_output_comes_in_order_and_adjacent_data_of_a_channel_is_joined() -> None:
    offered, came = threading.Event(), []

    def take(channel: Channel, data: bytes) -> None:
        came.append((channel, data))
        assert offered.wait(LONG)

    async def work(call: Call[str]) -> str:
        offer(call, OUT, b"first")
        while not came:
            await asyncio.sleep(0)
        rest = ((OUT, b"a"), (OUT, b"b"), (ERR, b"c"), (ERR, b""), (ERR, b"d"), (OUT, b"e"), (ERR, b"f"))
        for channel, data in rest:
            offer(call, channel, data)
        offered.set()
        return "done"

    assert loop.run(work, take) == "done"
    assert came == [(OUT, b"first"), (OUT, b"ab"), (ERR, b"cd"), (OUT, b"e"), (ERR, b"f")]


def test_a_callback_runs_in_its_callers_thread_and_may_call() -> None:
    came: list[object] = []

    def take(channel: Channel, data: bytes) -> None:
        came.append((threading.current_thread(), WHO.get(), loop.run(right)))

    async def work(call: Call[None]) -> None:
        WHO.set("work")
        offer(call, OUT, b"x")
        await asyncio.sleep(0)

    loop.run(work, take)
    assert came == [(threading.current_thread(), "nobody", "right")]


def test_output_that_comes_with_the_end_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end comes after the caller's check for output and before the caller's check for the end."""
    looked, ended = threading.Event(), threading.Event()
    holds = OutputQueue.__bool__

    def look(pieces: OutputQueue) -> bool:
        found = holds(pieces)
        if not looked.is_set():
            looked.set()
            assert ended.wait(LONG)
        return found

    monkeypatch.setattr(OutputQueue, "__bool__", look)
    came: list[bytes] = []

    async def work(call: Call[None]) -> None:
        await loop.in_worker(looked.wait, LONG)
        asyncio.get_running_loop().call_soon(ended.set)
        offer(call, OUT, b"last")

    loop.run(work, lambda channel, data: came.append(data))
    assert came == [b"last"]


def test_much_output_comes_whole() -> None:
    came = bytearray()
    text = bytes(range(256)) * 16

    async def work(call: Call[None]) -> None:
        for place in range(0, len(text), 7):
            offer(call, OUT, text[place : place + 7])
            await asyncio.sleep(0)

    loop.run(work, lambda channel, data: came.extend(data))
    assert came == text


def test_a_call_without_a_callback_has_no_queue() -> None:
    async def work(call: Call[object]) -> object:
        return call.pieces

    assert loop.run(work) is None


def test_output_before_an_error_comes_before_the_error() -> None:
    came: list[bytes] = []

    async def work(call: Call[None]) -> None:
        offer(call, OUT, b"x")
        raise CallerLeft

    with pytest.raises(CallerLeft):
        loop.run(work, lambda channel, data: came.append(data))
    assert came == [b"x"]


def test_a_callback_that_raises_cancels_the_work_and_gets_no_more() -> None:
    work = Abandoned(wait_for_ever)
    came: list[bytes] = []

    def take(channel: Channel, data: bytes) -> None:
        came.append(data)
        assert work.waits.wait(LONG)
        raise CallerLeft

    async def offer_and_wait(call: Call[None]) -> None:
        try:
            offer(call, OUT, b"1")
            offer(call, ERR, b"2")
            await work(call)
        finally:
            offer(call, OUT, b"3")

    with pytest.raises(CallerLeft):
        loop.run(offer_and_wait, take)
    assert work.ended.is_set()  # before the error came
    assert work.steps == WHOLE
    assert came == [b"1"]


def test_a_stream_is_paused_above_the_limit_and_resumed_at_half_of_it() -> None:
    woken: list[None] = []
    pieces, stream = OutputQueue(lambda: woken.append(None)), PauseLog()
    pieces.offer(OUT, b"x" * loop.QUEUED, stream)
    assert stream.calls == []
    pieces.offer(ERR, b"x", stream)
    pieces.offer(OUT, b"x", stream)  # data read before the pause
    assert stream.calls == ["pause"]
    assert len(woken) == 3
    assert [len(data) for _, data in pieces.pop_all()] == [loop.QUEUED, 1, 1]
    assert not pieces
    assert stream.calls == ["pause"]
    pieces.acknowledge(loop.QUEUED // 2 + 1)
    assert stream.calls == ["pause"]
    pieces.acknowledge(1)
    assert stream.calls == ["pause", "resume"]
    pieces.acknowledge(loop.QUEUED // 2)
    assert stream.calls == ["pause", "resume"]
    pieces.offer(OUT, b"x" * (loop.QUEUED + 1), stream)
    assert stream.calls == ["pause", "resume", "pause"]


def test_queued_output_is_dropped_with_its_caller() -> None:
    pieces, stream = OutputQueue(lambda: None), PauseLog()
    pieces.offer(OUT, b"x", stream)
    pieces.drop()
    assert not pieces
    pieces.acknowledge(1)  # sent by the caller before it left
    pieces.offer(OUT, b"x", stream)
    assert pieces.pop_all() == []
    assert stream.calls == []


def test_a_slow_callback_pauses_the_stream_until_the_queue_is_drained() -> None:
    release, came = threading.Event(), []

    def take(channel: Channel, data: bytes) -> None:
        assert release.wait(LONG)
        came.append(len(data))

    async def work(call: Call[list[str]]) -> list[str]:
        resumed = asyncio.Event()
        stream = PauseLog(resumed)
        for _ in range(2):
            offer(call, OUT, b"x" * (loop.QUEUED // 2), stream)
        stream.calls.append("full")
        offer(call, OUT, b"x", stream)
        release.set()
        await resumed.wait()
        return stream.calls

    assert loop.run(work, take) == ["full", "pause", "resume"]
    assert sum(came) == loop.QUEUED + 1


def test_a_caller_that_leaves_resumes_a_stream_and_later_output_is_dropped() -> None:
    stream, paused, ended = PauseLog(), threading.Event(), threading.Event()

    async def work(call: Call[None]) -> None:
        offer(call, OUT, b"x" * (loop.QUEUED + 1), stream)
        asyncio.get_running_loop().call_soon(paused.set)
        try:
            await wait_for_ever()
        finally:
            offer(call, OUT, b"x" * (2 * loop.QUEUED), stream)
            assert not call.pieces
            ended.set()

    with pytest.raises(CallerLeft):
        loop.run(work, leaving(paused))
    assert ended.wait(LONG)
    assert stream.calls == ["pause", "resume"]

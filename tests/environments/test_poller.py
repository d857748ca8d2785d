"""The poller of the loop thread: descriptors, submitted functions and timers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest

from environments.poller import Poller, Timer

SOON, NEVER = 0.01, 1000.0


@pytest.fixture
def poller() -> Iterator[Poller]:
    made = Poller()
    yield made
    made.close()


@pytest.fixture
def pipes() -> Iterator[list[tuple[int, int]]]:
    made = [os.pipe(), os.pipe()]
    yield made
    for each in {descriptor for pair in made for descriptor in pair}:
        os.close(each)


class TestDescriptors:
    def test_a_callback_of_a_readable_descriptor_is_called_by_select(
        self, poller: Poller, pipes: list[tuple[int, int]]
    ) -> None:
        came: list[bytes] = []
        (reading, writing), _ = pipes
        poller.watch_readable(reading, lambda: came.append(os.read(reading, 9)))
        assert poller.select(0) == []
        os.write(writing, b"x")
        assert poller.select(NEVER) == []
        assert came == [b"x"]

    def test_descriptors_of_asyncio_are_left_to_asyncio(self, poller: Poller, pipes: list[tuple[int, int]]) -> None:
        (_, writing), _ = pipes
        key = poller.register(writing, 2, ("its", "own"))
        assert poller.select(0) == [(key, 2)]

    def test_a_descriptor_that_was_unwatched_in_the_same_turn_is_not_called(
        self, poller: Poller, pipes: list[tuple[int, int]]
    ) -> None:
        called: list[int] = []
        both = [reading for reading, _ in pipes]

        def take(descriptor: int) -> None:
            called.append(descriptor)
            for each in both:
                poller.watch_readable(each, None)

        for reading, writing in pipes:
            poller.watch_readable(reading, lambda reading=reading: take(reading))  # type: ignore[misc]
            os.write(writing, b"x")
        poller.select(0)
        poller.select(0)
        assert len(called) == 1

    def test_reading_and_writing_are_watched_apart(self, poller: Poller) -> None:
        import socket

        called: list[str] = []
        ours, theirs = socket.socketpair()
        with ours, theirs:
            poller.watch_readable(ours.fileno(), lambda: called.append("read"))
            poller.watch_writable(ours.fileno(), lambda: called.append("write"))
            theirs.send(b"x")
            poller.select(0)
            poller.watch_readable(ours.fileno(), None)
            poller.select(0)
            poller.watch_writable(ours.fileno(), None)
            poller.watch_writable(ours.fileno(), None)
            poller.select(0)
        assert called == ["read", "write", "write"]

    def test_a_callback_that_raises_does_not_affect_the_others(
        self, poller: Poller, pipes: list[tuple[int, int]]
    ) -> None:
        called = []
        for reading, writing in pipes:
            os.write(writing, b"x")
            poller.watch_readable(reading, lambda: called.append(1) or 1 / 0)  # type: ignore[func-returns-value]
        poller.select(0)
        assert len(called) == 2


class TestSubmit:
    def test_a_submitted_function_ends_a_wait_and_is_called(self, poller: Poller) -> None:
        called: list[int] = []
        threads = [threading.Timer(SOON, poller.submit, (called.append, number)) for number in range(20)]
        for thread in threads:
            thread.start()
        while len(called) < len(threads):
            poller.select(NEVER)
        assert sorted(called) == list(range(20))

    def test_a_submitted_function_is_called_at_once_by_the_next_select(self, poller: Poller) -> None:
        called: list[str] = []
        poller.submit(called.append, "x")
        poller.select(NEVER)
        assert called == ["x"]

    def test_a_function_that_submits_itself_again_does_not_block_the_loop(self, poller: Poller) -> None:
        called: list[int] = []

        def again() -> None:
            called.append(1)
            poller.submit(again)

        again()
        poller.select(NEVER)
        assert 2 <= len(called) <= 3
        poller.select(NEVER)

    def test_wakes_are_called_once_before_a_wait(self, poller: Poller) -> None:
        woken: list[str] = []
        poller.wakes += [lambda: woken.append("first") or 1 / 0, lambda: woken.append("second")]  # type: ignore[func-returns-value]
        poller.select(0)
        poller.select(0)
        assert woken == ["first", "second"]


class TestTimer:
    def test_scheduled_functions_are_called_once_and_the_earliest_first(self) -> None:
        async def scene() -> list[str]:
            loop, called = asyncio.get_running_loop(), list[str]()
            timer, done = Timer(loop, SOON), asyncio.Event()
            for name in ("taken back", "raises", "begun anew", "last"):
                timer.schedule(name, lambda name=name: called.append(name) or (name == "raises" and 1 / 0))  # type: ignore[misc,func-returns-value]
            timer.schedule("begun anew", lambda: called.append("anew"))
            timer.schedule("end", done.set)
            timer.cancel("taken back")
            timer.cancel("taken back")
            assert timer.is_scheduled("last")
            assert not timer.is_scheduled("taken back")
            await done.wait()
            assert not timer.is_scheduled("last")
            timer.schedule("later", done.clear)
            while done.is_set():
                await asyncio.sleep(SOON)
            return called

        assert asyncio.run(scene()) == ["raises", "last", "anew"]

    def test_a_function_may_cancel_another_that_is_due(self) -> None:
        async def scene() -> list[str]:
            called: list[str] = []
            timer = Timer(asyncio.get_running_loop(), 0)
            timer.schedule("first", lambda: timer.cancel("second"))
            timer.schedule("second", lambda: called.append("second"))
            await asyncio.sleep(SOON)
            return called

        assert asyncio.run(scene()) == []

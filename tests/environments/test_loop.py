"""The loop thread: what comes back from it, and that nothing stays on it whenever a caller leaves."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from functools import partial
from operator import call as call_it
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from targets.trial import Caller, Place, Raised, raise_at

from environments import TerminalError, loop
from environments.conformance.check import wait_until
from environments.loop import Call, LoopThread, Pieces
from environments.output import Channel

LONG = 60.0
"""Seconds that a test waits for what comes at once, also on a loaded machine."""
NEVER = 100_000.0
"""Seconds to wait for what never comes."""
TESTS = Path(__file__).parents[1]
OUT, ERR = Channel.STDOUT, Channel.STDERR

Work = Callable[[Call[Any]], Awaitable[Any]]
WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


@pytest.fixture(autouse=True)
def thread() -> Iterator[LoopThread]:
    """A loop thread of the test's own, on which nothing is left in the end."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "_current", None)
        assert loop.run(right) == "right"
        made = loop.current()
        yield made
        left = loop.run(lambda _: others_that_stay())
    end(made)
    assert left == []


def end(thread: LoopThread) -> None:
    """End a loop thread, and the workers that wait on it."""
    thread.stop()
    assert thread.has_ended
    for worker in thread._workers._idle:
        worker.wake.release()
    thread.loop.close()


async def others_that_stay() -> list[asyncio.Task[Any]]:
    """Return the other tasks of the loop that do not end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    return list((await asyncio.wait(others, timeout=LONG))[1]) if others else []


async def right(_: Call[str]) -> str:
    return "right"


async def wait_for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def alone(work: Work) -> Call[Any]:
    """A call that nobody waits for."""
    return Call(work, None, lambda: None, wants_pieces=False)


class Stream:
    """A stream that is told to pause and to resume, which sets an event."""

    def __init__(self, resumed: asyncio.Event | None = None) -> None:
        self.told: list[str] = []
        self._resumed = resumed

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")
        if self._resumed:
            self._resumed.set()


def offer(call: Call[Any], channel: Channel, data: bytes, stream: Stream | None = None) -> None:
    """Offer a piece of output to the callback of a call, as work does."""
    assert call.pieces is not None
    call.pieces.offer(channel, data, stream or Stream())


class Gone(Exception):
    """What is raised in the thread of a caller that leaves."""


def leave_by(error: type[BaseException] = Gone, after: threading.Event | None = None) -> Callable[..., None]:
    """A callback for output that raises, once an event is set."""

    def leave(channel: Channel, data: bytes) -> None:
        assert after is None or after.wait(LONG)
        raise error

    return leave


def output_of(script: str, may_complain: bool = False) -> str:
    """Run a script in an interpreter of its own, which is to end well and has to say nothing on stderr."""
    beside = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": beside},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done
    assert not done.stderr or may_complain, done
    return done.stdout


class TestResults:
    def test_a_value_comes_back(self) -> None:
        value = object()

        async def work(call: Call[object]) -> object:
            await asyncio.sleep(0)
            return value

        assert loop.run(work) is value

    @pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
    def test_the_same_error_comes_back_once(self, kind: type[BaseException]) -> None:
        error = kind("once")

        async def work(call: Call[None]) -> None:
            await asyncio.sleep(0)
            raise error

        with pytest.raises(kind) as raised:
            loop.run(work)
        assert raised.value is error
        assert loop.run(right) == "right"

    def test_an_error_is_raised_once_and_not_kept(self) -> None:
        async def work(call: Call[None]) -> None:
            raise ValueError

        call = alone(work)
        loop.run(lambda _: call.serve())
        with pytest.raises(ValueError):  # noqa: PT011  # it has no text
            call.result()
        assert call.error is None

    @pytest.mark.usefixtures("without_collector")
    def test_an_error_that_was_handled_keeps_nothing_alive(self) -> None:
        class Held:
            pass

        references: list[weakref.ref[Held]] = []

        async def work(call: Call[None]) -> None:
            held = Held()
            references.append(weakref.ref(held))
            await asyncio.sleep(0)
            raise ValueError

        with contextlib.suppress(ValueError):
            loop.run(work)
        loop.run(right)  # the loop lets go of a call in the turn after it
        assert references[0]() is None

    def test_what_work_returns_is_the_callers_alone(self) -> None:
        class Held:
            pass

        async def work(call: Call[Held]) -> Held:
            return Held()

        gc.collect()
        reference = weakref.ref(loop.run(work))
        loop.run(right)
        assert reference() is None

    def test_a_function_in_a_worker_returns_and_raises(self) -> None:
        error = KeyError("worker")

        def fail() -> None:
            raise error

        assert loop.run(lambda _: loop.in_worker(divmod, 17, 5)) == (3, 2)
        with pytest.raises(KeyError) as raised:
            loop.run(lambda _: loop.in_worker(fail))
        assert raised.value is error
        with pytest.raises(RuntimeError, match="StopIteration"):
            loop.run(lambda _: loop.in_worker(next, iter(())))

    def test_a_coroutine_function_that_raises_before_it_has_a_coroutine(self) -> None:
        def work(call: Call[None]) -> Awaitable[None]:
            raise Gone

        with pytest.raises(Gone):
            loop.run(work)

    def test_a_call_on_the_loops_own_thread_is_refused(self, thread: LoopThread) -> None:
        async def work(call: Call[str]) -> str:
            assert thread.is_mine
            return loop.run(right)

        assert not thread.is_mine
        with pytest.raises(TerminalError, match="own thread"):
            loop.run(work)

    def test_the_first_calls_at_once_have_one_loop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(loop, "_current", None)
        barrier = threading.Barrier(8)
        loops: list[LoopThread] = []

        def call() -> None:
            barrier.wait(LONG)
            assert loop.run(right) == "right"
            loops.append(loop.current())

        threads = [threading.Thread(target=call) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(LONG)
        assert loops == [loop.current()] * 8
        end(loop.current())

    def test_many_threads_call_at_once(self) -> None:
        together = asyncio.Event()
        here: list[int] = []

        async def work(call: Call[int]) -> int:
            here.append(len(here))
            if len(here) == 20:
                together.set()
            mine = len(here)
            await together.wait()
            return mine

        results: list[int] = []
        threads = [threading.Thread(target=lambda: results.append(loop.run(work))) for _ in range(20)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(LONG)
        assert sorted(results) == list(range(1, 21))


class TestContext:
    def test_a_callers_variables_hold_in_its_work(self) -> None:
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

    def test_two_callers_at_once_have_each_their_own(self) -> None:
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

        threads = [threading.Thread(target=call_as, args=(name,)) for name in ("a", "b")]
        for each in threads:
            each.start()
        for each in threads:
            each.join(LONG)
        assert seen == {"a": ["a"], "b": ["b"]}


# Where work can wait: each is awaited in a call that its caller leaves. `release` ends what would block a worker.


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


async def at_a_lock(release: threading.Event) -> None:
    lock = asyncio.Lock()
    await lock.acquire()
    await lock.acquire()


async def at_an_event(release: threading.Event) -> None:
    await asyncio.Event().wait()


async def in_a_group(release: threading.Event) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(wait_for_ever())


async def at_gather(release: threading.Event) -> None:
    await asyncio.gather(wait_for_ever(), asyncio.sleep(NEVER))


async def in_done_within(release: threading.Event) -> None:
    await loop.done_within(asyncio.get_running_loop().create_future(), NEVER)


async def in_shielded(release: threading.Event) -> None:
    other = loop.spawn(loop.in_worker(release.wait, LONG))
    try:
        await loop.shielded(other)
    finally:
        assert not other.cancelling() and not other.done()


WAITS = [
    at_a_future,
    at_sleep,
    in_worker,
    in_timeout,
    at_wait_for,
    at_a_lock,
    at_an_event,
    in_a_group,
    at_gather,
    in_done_within,
    in_shielded,
]


class Abandoned:
    """Work that waits for ever, cleans up in several awaits, and notes what it comes to."""

    def __init__(self, wait: Callable[[], Awaitable[None]]) -> None:
        self._wait = wait
        self.waits, self.ended = threading.Event(), threading.Event()
        self.steps: list[str] = []

    async def __call__(self, call: Call[None]) -> None:
        # The loop comes to this in its next turn, when the task waits.
        asyncio.get_running_loop().call_soon(self.waits.set)
        try:
            await self._wait()
        except asyncio.CancelledError:
            self.steps.append("cancelled")
            raise
        finally:
            try:
                await asyncio.sleep(0)
                self.steps.append("slept")
            finally:
                self.steps.append(await loop.in_worker(str, "worked"))
                async with asyncio.timeout(NEVER):
                    await loop.done_within(loop.spawn(asyncio.sleep(0)), NEVER)
                self.steps.append("ended")
                self.ended.set()


WHOLE = ["cancelled", "slept", "worked", "ended"]


class TestCancellation:
    @pytest.mark.parametrize("wait", WAITS, ids=lambda wait: wait.__name__)
    def test_an_exception_in_the_callers_thread_cancels_the_work_wherever_it_waits(
        self, wait: Callable[[threading.Event], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(loop, "SLICE", 0.01)  # such an exception does not end a wait for a lock
        release = threading.Event()
        work = Abandoned(lambda: wait(release))
        raised: list[BaseException] = []

        def call() -> None:
            try:
                loop.run(work)
            except Gone as error:
                raised.append(error)

        caller = threading.Thread(target=call)
        caller.start()
        assert work.waits.wait(LONG)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(caller.ident or 0), ctypes.py_object(Gone))
        caller.join(LONG)
        assert len(raised) == 1
        assert work.ended.wait(LONG)
        release.set()
        assert work.steps == WHOLE
        assert loop.run(right) == "right"

    def test_a_signal_that_raises_cancels_the_work(self) -> None:
        work = Abandoned(wait_for_ever)

        async def send_and_wait(call: Call[None]) -> None:
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGUSR1)
            await work(call)

        with raising_at(signal.SIGUSR1), pytest.raises(Gone):
            loop.run(send_and_wait)
        assert work.ended.wait(LONG)
        assert work.steps == WHOLE

    def test_a_signal_that_comes_just_before_the_wait_for_the_lock_ends_the_call(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(loop, "SLICE", 0.01)
        work = Abandoned(wait_for_ever)

        class LateLock:
            """A lock of which Python learns when its wait is over that a signal came just before it."""

            def __init__(self) -> None:
                self._lock = threading.Lock()
                self.locked, self.release = self._lock.locked, self._lock.release

            def acquire(self, *how: Any) -> bool:
                if not how:
                    return self._lock.acquire()
                assert work.waits.wait(LONG)
                # Both are written in C, and map calls them without a look for signals in between.
                ring = partial(ctypes.PyDLL(None)["raise"], signal.SIGUSR1)
                return bool(list(map(call_it, (ring, partial(self._lock.acquire, *how))))[1])

        module = SimpleNamespace(get_ident=threading.get_ident, allocate_lock=LateLock)
        monkeypatch.setattr(loop, "_thread", module)
        with raising_at(signal.SIGUSR1), pytest.raises(Gone):
            loop.run(work)
        assert work.ended.wait(LONG)
        assert work.steps == WHOLE

    def test_an_alarm_in_the_main_thread_cancels_the_work(self) -> None:
        script = """
            import asyncio, signal, threading
            from environments import loop

            class Alarm(Exception): pass

            def ring(*_): raise Alarm

            ended = threading.Event()

            async def work(call):
                asyncio.get_running_loop().call_soon(signal.setitimer, signal.ITIMER_REAL, 0.001)
                try:
                    await asyncio.sleep(1000)
                finally:
                    await asyncio.sleep(0)
                    ended.set()

            signal.signal(signal.SIGALRM, ring)
            for _ in range(20):
                ended.clear()
                try:
                    loop.run(work)
                except Alarm:
                    print(ended.wait(60), end=" ")
        """
        assert output_of(script).split() == ["True"] * 20

    def test_it_is_cancelled_once_however_often_its_caller_leaves(self, thread: LoopThread) -> None:
        work = Abandoned(wait_for_ever)

        async def scene(_: Call[None]) -> None:
            call = alone(work)
            thread.begin(call)
            await loop.in_worker(work.waits.wait, LONG)
            for _times in range(3):
                thread.leave(call)
                await asyncio.sleep(0)
            assert await others_that_stay() == []

        loop.run(scene)
        assert work.steps == WHOLE

    def test_a_function_whose_caller_has_left_ends_alone_and_its_thread_works_on(
        self, thread: LoopThread, caplog: pytest.LogCaptureFixture
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

        with pytest.raises(Gone):
            loop.run(work, leave_by(Gone, began))
        release.set()
        assert wait_until(lambda: len(thread._workers._idle) == 1, LONG)
        assert loop.run(lambda _: loop.in_worker(threading.current_thread)).name == names[0]
        assert not caplog.records


@contextlib.contextmanager
def raising_at(number: int) -> Iterator[None]:
    """Have a signal raise `Gone` in the main thread."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Gone

    before = signal.signal(number, ring)
    try:
        yield
    finally:
        signal.signal(number, before)


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


class Things:
    """What work makes, each of which is somebody's in the end."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.got: list[int] = []
        self.undone: list[int] = []

    async def undo(self, thing: int) -> None:
        await asyncio.sleep(0)
        self.undone.append(thing)

    async def make(self, call: Call[int]) -> int:
        """Work that makes one at its end."""
        call.undo = self.undo
        self.made.append(len(self.made))
        return self.made[-1]

    def lost(self) -> str:
        """Say what was lost, or had by two; an empty text if nothing."""
        return "" if sorted(self.got + self.undone) == self.made else f"{vars(self)}"


class TestCallersThatLeave:
    def test_before_it_began(self, thread: LoopThread) -> None:
        things = Things()

        async def scene(_: Call[None]) -> None:
            before_begin, before_a_step, unheard = (alone(things.make) for _ in range(3))
            thread.leave(before_begin)
            thread.begin(before_begin)
            assert before_begin.left and before_begin.task is None
            thread.begin(before_a_step)
            thread.left.append(before_a_step)
            thread.abandon()
            thread.left.append(unheard)  # without a word to the loop: another exception came then
            thread.begin(unheard)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert before_a_step.task and before_a_step.task.cancelled()
            assert unheard.task is None
            assert not thread.left

        loop.run(scene)
        assert vars(things) == vars(Things())

    def test_before_it_began_while_the_loop_was_busy(self, thread: LoopThread) -> None:
        things, busy, release = Things(), threading.Event(), threading.Event()

        def block() -> None:
            busy.set()
            release.wait(LONG)

        places = raise_at(None, lambda: loop.run(things.make))
        sent = next(place for place in places if "hand_in deque.append returned" in place)
        thread.soon(block)
        assert busy.wait(LONG)
        try:
            assert raise_at(sent, lambda: loop.run(things.make))[-1] == sent
        finally:
            release.set()
        assert loop.run(right) == "right"
        assert (things.made, things.undone) == ([0], [])

    def test_while_it_runs(self) -> None:
        undone: list[object] = []

        async def undo(value: object) -> None:
            undone.append(value)

        work = Abandoned(wait_for_ever)

        async def offer_and_wait(call: Call[None]) -> None:
            call.undo = undo
            offer(call, OUT, b"x")
            await work(call)

        with pytest.raises(Gone):
            loop.run(offer_and_wait, leave_by(Gone, work.waits))
        assert work.ended.wait(LONG)
        loop.run(right)
        assert undone == []

    def test_just_as_it_was_done(self) -> None:
        things, done, undone = Things(), threading.Event(), threading.Event()

        async def undo(thing: int) -> None:
            await things.undo(thing)
            undone.set()

        async def work(call: Call[int]) -> int:
            offer(call, OUT, b"x")
            asyncio.get_running_loop().call_soon(done.set)  # when the task has ended
            made = await things.make(call)
            call.undo = undo
            return made

        with pytest.raises(Gone):
            loop.run(work, leave_by(Gone, done))
        assert undone.wait(LONG)
        assert things.undone == [0]

    def test_a_result_is_undone_once(self, thread: LoopThread) -> None:
        things = Things()

        async def scene(_: Call[None]) -> None:
            call = alone(things.make)
            thread.begin(call)
            await asyncio.sleep(0)
            assert call.done
            for _times in range(3):
                thread.leave(call)
            await asyncio.sleep(0)
            assert await others_that_stay() == []

        loop.run(scene)
        assert things.undone == [0]

    def test_a_result_in_spite_of_a_cancellation_is_undone_once(self, thread: LoopThread) -> None:
        things = Things()

        async def stubborn(call: Call[int]) -> int:
            with contextlib.suppress(asyncio.CancelledError):
                await wait_for_ever()
            return await things.make(call)

        async def scene(_: Call[None]) -> None:
            call = alone(stubborn)
            thread.begin(call)
            await asyncio.sleep(0)
            thread.leave(call)
            await asyncio.sleep(0)
            thread.leave(call)
            assert await others_that_stay() == []
            assert call.done

        loop.run(scene)
        assert things.undone == [0]

    def test_an_error_is_not_undone(self, thread: LoopThread) -> None:
        things = Things()

        async def fail(call: Call[int]) -> int:
            call.undo = things.undo
            raise Gone

        async def scene(_: Call[None]) -> None:
            call = alone(fail)
            thread.begin(call)
            await asyncio.sleep(0)
            thread.leave(call)
            await asyncio.sleep(0)

        loop.run(scene)
        assert things.undone == []

    def test_a_result_that_the_caller_got_is_not_undone(self) -> None:
        things = Things()
        for _ in range(3):
            things.got.append(loop.run(things.make))
        assert loop.run(lambda _: others_that_stay()) == []
        assert (things.got, things.undone) == ([0, 1, 2], [])

    def test_an_undo_that_fails_is_logged(self, caplog: pytest.LogCaptureFixture, thread: LoopThread) -> None:
        async def fail(value: str) -> None:
            raise Gone("not undone")

        async def scene(_: Call[None]) -> None:
            call = alone(right)
            call.undo = fail
            thread.begin(call)
            await asyncio.sleep(0)
            thread.leave(call)
            await asyncio.sleep(0)
            assert await others_that_stay() == []

        loop.run(scene)
        gc.collect()
        assert "not undone" in caplog.text
        assert loop.run(right) == "right"


def raise_twice(first: int, second: int, call: Callable[[], object]) -> tuple[list[Place], bool]:
    """Raise at a moment of a call as `raise_at` does, and again at the start of a later function.

    Returns:
        The places of the moments that passed before the first, and whether there was a second.
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
    """Calls that are left at each moment of theirs, and what has to be right after each.

    Args:
        act: Makes a call, in the caller's thread. The things that it makes are those of `things`.
    """

    def __init__(self, act: Callable[[Things], object]) -> None:
        self._act = act
        self._here, self._there = Caller(), Caller()
        for caller in (self._here, self._there):
            caller.call(lambda: loop.run(right))

    def try_all(self) -> int:
        """Raise at each moment of a call, and return how many there are."""
        for number in itertools.count():
            things = Things()
            passed = self._here.call(partial(raise_at, number, partial(self._act, things)))
            assert not (wrong := self._wrong(things)), f"at {number}, {passed[-1]}: {wrong}"
            if len(passed) <= number:
                assert things.got == [0]
                return number
        raise AssertionError

    def try_pairs(self) -> int:
        """Raise at each moment of a call, and at each start of a function from there on."""
        pairs = 0
        for number in itertools.count():
            for second in itertools.count():
                things = Things()
                twice = partial(raise_twice, number, second, partial(self._act, things))
                passed, was_second = self._here.call(twice)
                assert not (wrong := self._wrong(things)), f"at {number}, {passed[-1]}, and {second}: {wrong}"
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

    def _wrong(self, things: Things) -> str:
        for name, caller in (("here", self._here), ("there", self._there)):
            if (value := caller.call(lambda: loop.run(right))) != "right":
                return f"the next call {name} gives {value}"
        if left := self._there.call(lambda: loop.run(lambda _: others_that_stay())):
            return f"left on the loop: {left}"
        return things.lost()


def at_once(things: Things) -> None:
    things.got.append(loop.run(things.make))


def after_a_worker(things: Things) -> None:
    async def work(call: Call[int]) -> int:
        await loop.in_worker(sum, (1, 2))
        return await things.make(call)

    things.got.append(loop.run(work))


def with_pieces(things: Things) -> None:
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
        return await things.make(call)

    things.got.append(loop.run(work, take))
    assert pieces == [(OUT, b"first"), (OUT, b"second"), (ERR, b"third")]


def within_a_callback(things: Things) -> None:
    async def work(call: Call[int]) -> int:
        offer(call, OUT, b"piece")
        await asyncio.sleep(0)
        return 0

    loop.run(work, lambda channel, data: at_once(things))


def after_an_error(things: Things) -> None:
    async def fail(call: Call[int]) -> int:
        call.undo = things.undo
        raise Gone

    with contextlib.suppress(Gone):
        loop.run(fail)
    at_once(things)


class TestEachMoment:
    @pytest.mark.parametrize("act", [at_once, after_a_worker, with_pieces, within_a_callback, after_an_error])
    def test_an_exception_at_it_leaves_nothing(
        self, act: Callable[[Things], object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(loop, "KEPT_WORKERS", 0)
        monkeypatch.setattr(loop, "IDLE_LIMIT", 0.0)
        before = set(threading.enumerate())
        moments = Moments(act)
        assert moments.try_all() > 10
        moments.end()
        assert wait_until(lambda: set(threading.enumerate()) <= before, LONG)

    def test_nor_does_another_exception_after_it(self) -> None:
        moments = Moments(at_once)
        assert moments.try_pairs() > 50
        moments.end()

    def test_an_exception_in_the_first_call_of_a_process_leaves_no_second_loop(self) -> None:
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

            gc.disable()  # what it ends is no part of the call
            before = descriptors()
            for number in itertools.count():
                passed = raise_at(number, lambda: loop.run(right))
                assert loop.run(right) == "right", passed[-1]
                loop._current.stop()
                loop._current.loop.close()
                loop._current = None
                assert wait_until(lambda: threads() == 1, 60), (passed[-1], threads())
                if "socketpair" in passed[-1]:  # the standard library's loses descriptors
                    before = descriptors()
                assert descriptors() == before, (passed[-1], descriptors(), before)
                if len(passed) <= number:
                    break
            print(number)
        """
        assert int(output_of(script, may_complain=True)) > 50  # it complains of loops that are half made


class TestPieces:
    def test_they_come_in_order_with_those_of_a_channel_joined(self) -> None:
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

    def test_a_callback_runs_in_its_callers_thread_and_may_call(self) -> None:
        came: list[object] = []

        def take(channel: Channel, data: bytes) -> None:
            came.append((threading.current_thread(), WHO.get(), loop.run(right)))

        async def work(call: Call[None]) -> None:
            WHO.set("work")
            offer(call, OUT, b"x")
            await asyncio.sleep(0)

        loop.run(work, take)
        assert came == [(threading.current_thread(), "nobody", "right")]

    def test_no_piece_is_lost_that_comes_with_the_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The end comes just after the caller has looked for pieces, and before it looks for the end."""
        looked, ended = threading.Event(), threading.Event()
        holds = Pieces.__bool__

        def look(pieces: Pieces) -> bool:
            found = holds(pieces)
            if not looked.is_set():
                looked.set()
                assert ended.wait(LONG)
            return found

        monkeypatch.setattr(Pieces, "__bool__", look)
        came: list[bytes] = []

        async def work(call: Call[None]) -> None:
            await loop.in_worker(looked.wait, LONG)
            asyncio.get_running_loop().call_soon(ended.set)
            offer(call, OUT, b"last")

        loop.run(work, lambda channel, data: came.append(data))
        assert came == [b"last"]

    def test_many_come_whole(self) -> None:
        came = bytearray()
        text = bytes(range(256)) * 16

        async def work(call: Call[None]) -> None:
            for place in range(0, len(text), 7):
                offer(call, OUT, text[place : place + 7])
                await asyncio.sleep(0)

        loop.run(work, lambda channel, data: came.extend(data))
        assert came == text

    def test_without_a_callback_there_are_none(self) -> None:
        async def work(call: Call[object]) -> object:
            return call.pieces

        assert loop.run(work) is None

    def test_those_before_an_error_come_before_it(self) -> None:
        came: list[bytes] = []

        async def work(call: Call[None]) -> None:
            offer(call, OUT, b"x")
            raise Gone

        with pytest.raises(Gone):
            loop.run(work, lambda channel, data: came.append(data))
        assert came == [b"x"]

    def test_a_callback_that_raises_cancels_the_work_and_gets_no_more(self) -> None:
        work = Abandoned(wait_for_ever)
        came: list[bytes] = []

        def take(channel: Channel, data: bytes) -> None:
            came.append(data)
            assert work.waits.wait(LONG)
            raise Gone

        async def offer_and_wait(call: Call[None]) -> None:
            try:
                offer(call, OUT, b"1")
                offer(call, ERR, b"2")
                await work(call)
            finally:
                offer(call, OUT, b"3")

        with pytest.raises(Gone):
            loop.run(offer_and_wait, take)
        assert work.ended.is_set()  # before the error came
        assert work.steps == WHOLE
        assert loop.run(lambda _: others_that_stay()) == []
        assert came == [b"1"]

    def test_a_stream_is_paused_above_the_limit_and_resumed_at_half_of_it(self) -> None:
        woken: list[None] = []
        pieces, stream = Pieces(lambda: woken.append(None)), Stream()
        pieces.offer(OUT, b"x" * loop.QUEUED, stream)
        assert stream.told == []
        pieces.offer(ERR, b"x", stream)
        pieces.offer(OUT, b"x", stream)  # what was read already
        assert stream.told == ["pause"]
        assert len(woken) == 3
        assert [len(data) for _, data in pieces.take()] == [loop.QUEUED, 1, 1]
        assert not pieces
        assert stream.told == ["pause"]
        pieces.taken(loop.QUEUED // 2 + 1)
        assert stream.told == ["pause"]
        pieces.taken(1)
        assert stream.told == ["pause", "resume"]
        pieces.taken(loop.QUEUED // 2)
        assert stream.told == ["pause", "resume"]
        pieces.offer(OUT, b"x" * (loop.QUEUED + 1), stream)
        assert stream.told == ["pause", "resume", "pause"]

    def test_what_waits_is_dropped_with_its_caller(self) -> None:
        pieces, stream = Pieces(lambda: None), Stream()
        pieces.offer(OUT, b"x", stream)
        pieces.drop()
        assert not pieces
        pieces.taken(1)  # what the caller had said before it left
        pieces.offer(OUT, b"x", stream)
        assert pieces.take() == []
        assert stream.told == []

    def test_a_callback_that_is_slow_pauses_the_stream_until_it_has_taken_what_waits(self) -> None:
        release, came = threading.Event(), []

        def take(channel: Channel, data: bytes) -> None:
            assert release.wait(LONG)
            came.append(len(data))

        async def work(call: Call[list[str]]) -> list[str]:
            resumed = asyncio.Event()
            stream = Stream(resumed)
            for _ in range(2):
                offer(call, OUT, b"x" * (loop.QUEUED // 2), stream)
            stream.told.append("full")
            offer(call, OUT, b"x", stream)
            release.set()
            await resumed.wait()
            return stream.told

        assert loop.run(work, take) == ["full", "pause", "resume"]
        assert sum(came) == loop.QUEUED + 1

    def test_a_caller_that_leaves_resumes_a_stream_and_what_comes_then_is_dropped(self) -> None:
        stream, paused, ended = Stream(), threading.Event(), threading.Event()

        async def work(call: Call[None]) -> None:
            offer(call, OUT, b"x" * (loop.QUEUED + 1), stream)
            asyncio.get_running_loop().call_soon(paused.set)
            try:
                await wait_for_ever()
            finally:
                offer(call, OUT, b"x" * (2 * loop.QUEUED), stream)
                assert not call.pieces
                ended.set()

        with pytest.raises(Gone):
            loop.run(work, leave_by(Gone, paused))
        assert ended.wait(LONG)
        assert stream.told == ["pause", "resume"]


class TestFaults:
    @pytest.mark.parametrize("kind", [Gone, KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_a_callback_on_the_loop_that_raises_is_logged_and_the_loop_goes_on(
        self, kind: type[BaseException], thread: LoopThread, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail() -> None:
            raise kind("of a callback")

        thread.soon(fail)
        assert loop.run(right) == "right"
        assert [(record.name, record.levelname) for record in caplog.records] == [("environments.poller", "ERROR")]
        assert f"{kind.__name__}: of a callback" in caplog.text

    def test_a_task_beside_that_exits_ends_nothing_else(self, caplog: pytest.LogCaptureFixture) -> None:
        async def leave() -> None:
            raise SystemExit("of a task")

        async def work(call: Call[str]) -> str:
            task = loop.spawn(leave())
            await asyncio.wait({task})
            assert isinstance(task.exception(), SystemExit)
            return "on"

        assert loop.run(work) == "on"
        assert "SystemExit: of a task" in caplog.text

    def test_a_task_beside_that_fails_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        async def fail() -> None:
            raise Gone("beside")

        async def work(call: Call[None]) -> None:
            loop.spawn(fail())
            await asyncio.sleep(0)

        loop.run(work)
        loop.run(right)
        gc.collect()
        assert "Gone: beside" in caplog.text

    def test_a_loop_whose_thread_cannot_be_started_is_an_error_of_that_call(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> int:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(loop, "_current", None)
        with monkeypatch.context() as full:
            full.setattr("environments.loop._thread.start_new_thread", refuse)
            for _ in range(2):
                with pytest.raises(TerminalError, match="can't start new thread"):
                    loop.run(right)
        assert loop.run(right) == "right"
        end(loop.current())


class TestWorkers:
    def test_there_are_as_many_as_wait_for_each_other_and_idle_ones_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
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

    def test_one_after_the_other_they_are_one(self) -> None:
        async def work(call: Call[set[int]]) -> set[int]:
            return {await loop.in_worker(threading.get_ident) for _ in range(20)}

        assert len(loop.run(work)) == 1

    def test_one_that_cannot_be_started_is_an_error_of_that_call_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
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
            full.setattr(loop.Worker, "start", refuse)
            with pytest.raises(TerminalError, match="can't start new thread"):
                loop.run(lambda _: loop.in_worker(str, "first"))
            assert loop.run(other) == "went on"
            release.set()
            caller.join(LONG)
            assert results == ["free"]
            assert loop.run(lambda _: loop.in_worker(str, "idle again")) == "idle again"
        assert loop.run(lambda _: loop.in_worker(str, "second")) == "second"

    def test_one_whose_function_exits_works_on(self) -> None:
        async def work(call: Call[None]) -> None:
            await loop.in_worker(sys.exit, 3)

        with pytest.raises(SystemExit):
            loop.run(work)
        assert loop.run(lambda _: loop.in_worker(str, "on")) == "on"


BEGINNING = """
import asyncio, atexit, os, signal, sys, threading

async def right(call):
    return "right"

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def try_a_call(name):
    from environments import TerminalError, loop
    try:
        say(name, loop.run(right))
    except TerminalError as error:
        say(name, error)
"""


def told_by(script: str, end: str = "") -> list[str]:
    """Run a script after `BEGINNING`, and return the lines that it prints."""
    return output_of(BEGINNING + textwrap.dedent(script) + textwrap.dedent(end)).splitlines()


FORKED = """
from environments import loop

def child_of(act):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return child

def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
FORKED_IN_A_CALLBACK = f"""{FORKED}
from environments.output import Channel

children = []

async def work(call):
    call.pieces.offer(Channel.STDOUT, b"x", None)
    while not children:
        await asyncio.sleep(0)
    return "value"
"""


class TestForks:
    def test_a_child_has_a_loop_of_its_own_and_its_parents_goes_on(self) -> None:
        script = """
            say("parent", loop.run(lambda _: loop.in_worker(str, "right")))
            parents = loop.current()

            def act():
                say("child", loop.run(right), loop.run(lambda _: loop.in_worker(str, "in a worker")))
                assert loop.current() is not parents
                import gc
                gc.collect()
                loop.current().stop()

            for _ in range(2):
                say("exit code", ended(child_of(act)))
                say("parent", loop.run(right), loop.run(lambda _: loop.in_worker(str, "in a worker")))
            assert loop.current() is parents
        """
        once = ["child right in a worker", "exit code 0", "parent right in a worker"]
        assert told_by(FORKED, script) == ["parent right", *once, *once]

    def test_a_child_of_a_child(self) -> None:
        script = """
            loop.run(right)

            def act():
                say("child", loop.run(right))
                say("exit code", ended(child_of(lambda: say("grandchild", loop.run(right)))))
                say("child", loop.run(right))

            say("exit code", ended(child_of(act)))
            say("parent", loop.run(right))
        """
        lines = ["child right", "grandchild right", "exit code 0", "child right", "exit code 0", "parent right"]
        assert told_by(FORKED, script) == lines

    def test_a_child_that_ends_as_programs_do_leaves_its_parents_loop_alone(self) -> None:
        script = """
            loop.run(right)
            child = os.fork()
            if child == 0:
                say("child", loop.run(right))
                sys.exit(7)
            say("exit code", ended(child))
            say("parent", loop.run(right))
        """
        assert told_by(FORKED, script) == ["child right", "exit code 7", "parent right"]

    def test_a_child_that_never_calls_leaves_its_parents_loop_alone(self) -> None:
        script = """
            loop.run(right)
            child = os.fork()
            if child == 0:
                sys.exit(7)
            say("exit code", ended(child))
            say("parent", loop.run(right))
        """
        assert told_by(FORKED, script) == ["exit code 7", "parent right"]

    def test_a_child_forked_while_another_thread_of_its_parent_waits(self) -> None:
        script = """
            released, begun, results = asyncio.Event(), threading.Event(), []

            async def work(call):
                begun.set()
                await released.wait()
                return "value"

            waiting = threading.Thread(target=lambda: results.append(loop.run(work)))
            waiting.start()
            begun.wait()
            say("exit code", ended(child_of(lambda: say("child", loop.run(right)))))
            loop.current().soon(released.set)
            waiting.join()
            say("parent", *results)
        """
        assert told_by(FORKED, script) == ["child right", "exit code 0", "parent value"]

    def test_a_child_forked_while_another_thread_starts_the_loop(self) -> None:
        script = """
            held, done = threading.Event(), threading.Event()

            def hold():
                with loop._making:
                    held.set()
                    done.wait()

            holding = threading.Thread(target=hold)
            holding.start()
            held.wait()
            say("exit code", ended(child_of(lambda: say("child", loop.run(right)))))
            done.set()
            holding.join()
            say("parent", loop.run(right))
        """
        assert told_by(FORKED, script) == ["child right", "exit code 0", "parent right"]

    def test_in_a_child_forked_in_a_callback_the_call_fails_and_its_parents_goes_on(self) -> None:
        script = """
            from environments import TerminalError
            def fork(channel, data):
                children.append(os.fork())

            try:
                say("parent", loop.run(work, fork))
            except TerminalError as error:
                say("child:", error)
                say("child", loop.run(right))
                os._exit(0)
            say("exit code", ended(*children))
        """
        lines = [f"child: {loop.FORKED}", "child right", "exit code 0", "parent value"]
        assert sorted(told_by(FORKED_IN_A_CALLBACK, script)) == sorted(lines)

    def test_in_a_child_forked_in_a_callback_that_raises_there_the_error_comes(self) -> None:
        script = """
            def fork(channel, data):
                children.append(os.fork())
                if children == [0]:
                    raise KeyError("child's")

            try:
                say("parent", loop.run(work, fork))
            except KeyError as error:
                say(error, loop.run(right))
                os._exit(0)
            say("exit code", ended(*children))
        """
        assert sorted(told_by(FORKED_IN_A_CALLBACK, script)) == ['"child\'s" right', "exit code 0", "parent value"]


class TestTheEndOfTheProgram:
    def test_callbacks_registered_after_the_import_call_and_those_before_it_are_told(self) -> None:
        script = """
            atexit.register(try_a_call, "before:")
            from environments import loop
            atexit.register(try_a_call, "after:")
            say("main:", loop.run(right))
        """
        assert told_by(script) == ["main: right", "after: right", f"before: {loop.AT_THE_END}"]

    def test_a_first_call_at_the_end(self) -> None:
        script = """
            atexit.register(try_a_call, "before:")
            from environments import loop
            atexit.register(try_a_call, "after:")
        """
        assert told_by(script) == ["after: right", f"before: {loop.AT_THE_END}"]

    def test_a_call_under_way_in_a_daemon_thread_is_told(self) -> None:
        script = """
            outcome = threading.Event()
            atexit.register(outcome.wait, 60)
            from environments import TerminalError, loop

            begun = threading.Event()

            async def work(call):
                begun.set()
                await asyncio.sleep(1000)

            def call():
                try:
                    loop.run(work)
                except TerminalError as error:
                    say(error)
                outcome.set()

            threading.Thread(target=call, daemon=True).start()
            begun.wait()
        """
        assert told_by(script) == [loop.AT_THE_END]

    def test_a_call_under_way_in_a_daemon_thread_does_not_keep_the_program(self) -> None:
        script = """
            from environments import loop

            begun = threading.Event()

            async def work(call):
                begun.set()
                await asyncio.sleep(1000)

            threading.Thread(target=loop.run, args=(work,), daemon=True).start()
            begun.wait()
            say("end")
        """
        assert told_by(script) == ["end"]

    def test_work_beside_ends_before_the_program(self) -> None:
        script = """
            from environments import loop

            released = threading.Event()

            async def last():
                await loop.in_worker(released.wait)
                loop.spawn(after())
                say("beside")

            async def after():
                await asyncio.sleep(0)
                say("after it", await loop.in_worker(str, "in a worker"))

            async def work(call):
                loop.spawn(last())

            loop.run(work)
            atexit.register(released.set)
        """
        assert told_by(script) == ["beside", "after it in a worker"]

    def test_work_beside_that_does_not_end_is_given_up(self) -> None:
        script = """
            atexit.register(try_a_call, "before:")
            from environments import loop

            loop.STOP_LIMIT = 0.05

            async def work(call):
                loop.spawn(asyncio.sleep(1000))

            loop.run(work)
            say("end")
        """
        assert told_by(script) == ["end", f"before: {loop.AT_THE_END}"]

    def test_what_is_to_be_closed_is_closed_behind_all_other_work(self) -> None:
        script = """
            from environments import loop

            loop.CLOSE_LIMIT = 0.05

            async def closing(word):
                say(word)
                if word == "fails":
                    raise OSError
                if word == "hangs":
                    await asyncio.sleep(1000)

            async def last():
                await asyncio.sleep(0.1)
                say("last work")

            async def work(call):
                for word in ("fails", "hangs", "closes"):
                    loop.current().at_end(lambda word=word: closing(word))
                loop.spawn(last())

            loop.run(work)
        """
        assert told_by(script) == ["last work", "fails", "hangs", "closes"]

    def test_a_host_is_looked_up_at_the_end_where_workers_are_lent(self) -> None:
        script = """
            from environments import loop

            async def look_up(call):
                return len(await call_loop().getaddrinfo("127.0.0.1", 80)) > 0

            def call_loop():
                return loop.current().loop

            loop.current().lend_workers()
            say(loop.run(look_up))
            atexit.register(lambda: say(loop.run(look_up)))
        """
        assert told_by(script) == ["True", "True"]

    def test_a_loop_that_is_blocked_is_given_up(self) -> None:
        script = """
            from environments import loop

            loop.STOP_LIMIT = -0.95
            loop.run(right)
            loop.current().soon(threading.Event().wait)
            say("end")
        """
        assert told_by(script) == ["end"]

    def test_work_whose_caller_has_left_ends_whole_before_the_program(self) -> None:
        script = """
            from environments import loop

            async def work(call):
                try:
                    asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
                    await asyncio.sleep(1000)
                finally:
                    say("in a worker", await loop.in_worker(gone.wait, 60))
                    await asyncio.sleep(0)
                    say("ended")

            gone = threading.Event()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                loop.run(work)
            except KeyboardInterrupt:
                say("left")
            atexit.register(gone.set)
        """
        assert told_by(script) == ["left", "in a worker True", "ended"]

    def test_work_whose_caller_had_no_time_to_say_that_it_left_ends_whole_before_the_program(self) -> None:
        script = """
            from environments import loop
            from environments.output import Channel

            begun = threading.Event()

            async def work(call):
                try:
                    call.pieces.offer(Channel.STDOUT, b"x", None)
                    asyncio.get_running_loop().call_soon(begun.set)
                    await asyncio.sleep(1000)
                finally:
                    await asyncio.sleep(0)
                    say("ended")

            def leave(channel, data):
                begun.wait()
                loop.LoopThread.soon = leave_again
                raise KeyboardInterrupt

            def leave_again(*_):
                loop.LoopThread.soon = soon
                raise KeyboardInterrupt

            soon = loop.LoopThread.soon
            try:
                loop.run(work, leave)
            except KeyboardInterrupt:
                say("left")
        """
        assert told_by(script) == ["left", "ended"]

    def test_a_result_that_nobody_got_is_undone_before_the_program_ends(self) -> None:
        script = """
            from environments import loop
            from environments.output import Channel

            async def undo(value):
                await asyncio.sleep(0)
                say("undone", value)

            done = threading.Event()

            async def work(call):
                call.undo = undo
                call.pieces.offer(Channel.STDOUT, b"x", None)
                asyncio.get_running_loop().call_soon(done.set)
                return "value"

            def leave(channel, data):
                done.wait()
                sys.exit()

            loop.run(work, leave)
        """
        assert told_by(script) == ["undone value"]

    def test_a_worker_works_there(self) -> None:
        script = """
            from environments import loop

            @atexit.register
            def last():
                async def work(call):
                    return await asyncio.gather(*(loop.in_worker(str, number) for number in range(2)))

                say(*loop.run(work))

            async def use(call):
                await asyncio.gather(*(loop.in_worker(barrier.wait) for _ in range(2)))

            barrier = threading.Barrier(2)
            loop.run(use)
        """
        assert told_by(script) == ["0 1"]

    def test_a_function_that_blocks_in_a_worker_does_not_keep_the_program(self) -> None:
        script = """
            from environments import loop

            begun = threading.Event()

            def block():
                begun.set()
                threading.Event().wait()

            threading.Thread(target=loop.run, args=(lambda _: loop.in_worker(block),), daemon=True).start()
            begun.wait()
            say("end")
        """
        assert told_by(script) == ["end"]

    def test_an_error_that_ends_the_program_ends_it_as_ever(self) -> None:
        script = """
            from environments import loop

            @atexit.register
            def last():
                say("last", loop.run(right))

            async def work(call):
                sys.exit(0)

            loop.run(work)
            say("never")
        """
        assert told_by(script) == ["last right"]

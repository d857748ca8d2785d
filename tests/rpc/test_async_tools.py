"""Asynchronous tools: one event loop for each script, cancelled at the script's end."""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from environments.cancellation import current_scope
from environments.conformance.check import wait_until
from rpc import Dispatcher, Request, Response

_ids = itertools.count()


def call(dispatcher, tool, *args):
    return Response.decode(dispatcher.dispatch(Request(f"id{next(_ids)}", tool, list(args), {}, "token").encode()))


def failure(dispatcher, tool, *args):
    return call(dispatcher, tool, *args).result["error"]


def our_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("hermes-async")]


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    assert our_threads() == []


@pytest.fixture
def open_dispatcher():
    opened = []

    def open_one(**handlers):
        opened.append(Dispatcher(handlers, token="token"))
        return opened[-1]

    yield open_one
    for dispatcher in opened:
        dispatcher.close()
        dispatcher.join(20)


async def double(number, factor=2):
    """Multiply."""
    await asyncio.sleep(0)
    return factor * number


class _CallableTool:
    async def __call__(self, number):
        return await double(number)

    async def method(self, number):
        return await double(number)


class _LaterAnswer:
    def __await__(self):
        return double(21).__await__()


@pytest.mark.parametrize(
    "tool",
    [
        double,
        functools.partial(double, factor=2),
        _CallableTool(),
        _CallableTool().method,
        lambda number: double(number, factor=2),
        lambda number: _LaterAnswer(),
        functools.wraps(double)(lambda *args: double(*args, factor=2)),
    ],
    ids=["async def", "partial", "callable object", "method", "returns a coroutine", "returns an awaitable", "wrapped"],
)
def test_every_kind_of_awaitable_tool_is_awaited(open_dispatcher, tool):
    assert call(open_dispatcher(tool=tool), "tool", 21).result == 42


def test_without_such_a_tool_there_is_no_loop(open_dispatcher):
    assert call(open_dispatcher(tool=lambda: 1), "tool").result == 1
    assert our_threads() == []


def test_calls_of_one_script_share_a_loop_and_run_side_by_side(open_dispatcher):
    loops, together = [], []

    async def meet():
        loops.append(asyncio.get_running_loop())
        together.append(1)
        while len(together) < 5:
            await asyncio.sleep(0.001)
        return True

    dispatcher = open_dispatcher(meet=meet)
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda _: call(dispatcher, "meet").result, range(5)))
    assert answers == [True] * 5
    assert len(set(loops)) == 1
    assert len(our_threads()) == 1


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit("no"), KeyboardInterrupt("no")])
def test_an_async_tools_error_is_its_result_and_the_next_call_works(open_dispatcher, error):
    async def fail():
        raise error

    dispatcher = open_dispatcher(fail=fail, double=double)
    assert failure(dispatcher, "fail") == f"fail: {type(error).__name__}: no"
    assert call(dispatcher, "double", 1).result == 2


def test_an_async_tool_works_in_the_scripts_scope(open_dispatcher):
    async def scopes():
        return [current_scope() is dispatcher.scope, await asyncio.to_thread(current_scope) is dispatcher.scope]

    dispatcher = open_dispatcher(scopes=scopes)
    assert call(dispatcher, "scopes").result == [True, True]


def test_closing_cancels_an_async_tool(open_dispatcher):
    started, seen = threading.Event(), []

    async def wait():
        started.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    dispatcher = open_dispatcher(wait=wait)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(failure, dispatcher, "wait")
        assert started.wait(20)
        dispatcher.close()
        assert answer.result(20) == "wait: CancelledError"
    dispatcher.join(20)
    assert seen == ["cancelled"]


def test_a_call_after_the_close_is_refused_without_a_warning(open_dispatcher):
    dispatcher = open_dispatcher(double=double)

    def late():
        dispatcher.close()
        return double(1)

    dispatcher._handlers["double"] = lambda number: late()
    assert "the script has ended" in failure(dispatcher, "double", 1)


def test_a_tool_that_ignores_its_cancellation_does_not_hold_up_the_close(open_dispatcher):
    started, release = threading.Event(), threading.Event()

    async def stubborn():
        started.set()
        release.wait(60)

    dispatcher = open_dispatcher(stubborn=stubborn)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call, dispatcher, "stubborn")
        assert started.wait(20)
        dispatcher.close()
        dispatcher.join(0.01)
        assert our_threads() == ["hermes-async-tools"]
        release.set()
    wait_until(lambda: our_threads() == [], 60)

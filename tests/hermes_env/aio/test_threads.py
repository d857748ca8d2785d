"""Coroutines of the loop thread, awaited without a thread for each call. Each loop keeps its own context."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
import sniffio
from targets.awaiting import LONG, on_both_loops, until

from environments import CallCancelledError, CommandResult, TerminalError
from environments.approvals import CommandRequest
from environments.loop import Call, WorkerThread
from hermes_env.aio import AsyncEnvironment, aexecute_code, limit_threads
from hermes_env.aio.calls import awaited, awaited_on_callers_loop, in_thread

pytestmark = pytest.mark.anyio


def workers() -> set[str]:
    return {each.name for each in threading.enumerate() if each.name.startswith("hermes-worker")}


@on_both_loops
async def test_commands_that_are_awaited_at_once_need_no_thread_each(env: AsyncEnvironment) -> None:
    await env.execute("true")
    before = workers()
    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(env.execute_oneshot, "sleep 0.3")
            group.start_soon(env.execute, "true")
        await until(lambda: env.busy)
        process = await env.start("cat")
        group.start_soon(process.expect, "word")
        group.start_soon(process.wait)
        await process.write("word\n")
        await process.close_stdin()
        assert len(workers() - before) <= 2  # one searches for patterns


@on_both_loops
async def test_a_script_needs_one_worker(env: AsyncEnvironment) -> None:
    def count() -> int:
        return sum(not each.is_idle for each in threading.enumerate() if isinstance(each, WorkerThread))

    result = await aexecute_code("import hermes_tools; print(hermes_tools.count())", env=env, tools={"count": count})
    assert result.output == "1\n"


@on_both_loops
async def test_a_hook_and_a_plain_command_beside_it_do_not_wait_for_each_other(env: AsyncEnvironment) -> None:
    asked, answered = anyio.Event(), anyio.Event()

    async def ask(request: CommandRequest) -> None:
        asked.set()
        await answered.wait()

    async with AsyncEnvironment("local", before_command=ask) as other, anyio.create_task_group() as group:
        group.start_soon(other.execute, "true")
        await asked.wait()
        assert (await env.execute("echo on")).output == "on\n"
        answered.set()


async def test_calls_that_end_work_wait_for_no_turn(work: Path) -> None:
    asked, answered = anyio.Event(), anyio.Event()

    async def ask(request: CommandRequest) -> None:
        asked.set()
        await answered.wait()

    limit_threads(commands=1)
    try:
        async with (
            AsyncEnvironment("local", cwd=str(work), before_command=ask) as env,
            anyio.create_task_group() as group,
        ):
            session = await env.session("other")
            group.start_soon(env.execute, "true")
            await asked.wait()
            with anyio.fail_after(LONG):
                await env.interrupt()
                await session.interrupt()
                await session.close()
            answered.set()
    finally:
        limit_threads(commands=64)


@on_both_loops
async def test_the_library_of_the_caller_is_not_that_of_the_loop_thread(anyio_backend: str) -> None:
    async def library(_: Call[str]) -> str:
        return sniffio.current_async_library()

    assert sniffio.current_async_library() == anyio_backend
    assert await awaited(library) == "asyncio"


@on_both_loops
async def test_a_task_of_a_callback_is_refused_to_wait_for_its_own_command(env: AsyncEnvironment) -> None:
    async def run(piece: str) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(refused)

    async def refused() -> None:
        with pytest.raises(TerminalError, match="await execute_oneshot"):
            await env.execute("true")
        results.append(await env.execute_oneshot("echo beside"))

    results: list[CommandResult] = []
    await env.execute("echo out", on_output=run)
    assert [each.output for each in results] == ["beside\n"]


async def test_the_output_that_comes_quickly_leaves_other_tasks_their_turn(env: AsyncEnvironment) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.sleep(0)

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await env.execute("head -c 50000000 /dev/zero", binary=True, on_output=lambda _: None)
        group.cancel_scope.cancel()
    assert turns > 20


@on_both_loops
async def test_a_callback_of_a_call_that_is_over_is_cancelled(anyio_backend: str) -> None:
    async def tell() -> None:
        pytest.fail("its call is over")

    def take() -> None:
        callbacks.append((copy_context(), awaited_on_callers_loop(tell)))

    callbacks: list[tuple[Context, Callable[[], object]]] = []
    callback = awaited_on_callers_loop(tell)
    await in_thread(take)
    context, taken = callbacks[0]
    for each in (taken, callback):
        with pytest.raises(CallCancelledError, match="its call is over"):
            await anyio.to_thread.run_sync(context.run, each)
    with pytest.raises(TypeError, match="by a call that is not awaited itself"):
        callback()


async def test_a_cancellation_is_not_lost_while_callbacks_are_ended(anyio_backend: str) -> None:
    begun, ending, may_end = threading.Event(), asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        try:
            await anyio.sleep(LONG)
        finally:
            ending.set()
            with anyio.CancelScope(shield=True):
                await may_end.wait()

    def call_back() -> None:
        with pytest.raises(CallCancelledError):
            awaited_on_callers_loop(hang)()

    def leave_a_callback() -> None:
        others.submit(copy_context().run, call_back)
        begun.wait()

    with ThreadPoolExecutor() as others:
        task = asyncio.create_task(in_thread(leave_a_callback))
        await ending.wait()
        task.cancel()
        await asyncio.sleep(0)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task

"""Commands in the background that are awaited."""

from __future__ import annotations

import re

import anyio
import pytest
from targets.awaiting import LONG, on_both
from targets.processes import having

from environments import ProcessEndedError, ProcessTimeoutError
from hermes_env.aio import AsyncEnvironment

pytestmark = pytest.mark.anyio


@on_both
async def test_it_is_written_to_and_read(env: AsyncEnvironment) -> None:
    process = await env.start("cat; exit 3")
    await process.write("one\ntwo\n")
    assert await process.expect("one\n") == "one\n"
    assert await process.expect(re.compile("t.o")) == "two"
    assert process.running and process.pid
    assert await process.poll() is None
    await process.close_stdin()
    assert await process.wait() == 3
    assert await process.poll() == 3
    assert await process.read() == "\n"
    with pytest.raises(ProcessEndedError):
        await process.expect("three")
    with pytest.raises(BrokenPipeError):
        await process.write("more")


async def test_a_wait_has_a_limit_and_the_process_goes_on(env: AsyncEnvironment, nap: str) -> None:
    process = await env.start(f"sleep {nap}")
    assert await process.wait(0.05) is None
    assert await process.wait(0) is None
    with anyio.move_on_after(0.05) as limit:
        await process.wait()
    assert limit.cancelled_caught
    assert process.running
    with pytest.raises(ProcessTimeoutError):
        await process.expect("x", timeout=0.05)
    await process.kill()
    assert not having(nap)
    assert await process.wait() == 143


async def test_an_expectation_that_is_cancelled_has_read_nothing(env: AsyncEnvironment) -> None:
    process = await env.start("echo early; cat")
    with anyio.move_on_after(0.2) as limit:
        await process.expect("late")
    assert limit.cancelled_caught
    assert await process.expect("early\n") == "early\n"
    await process.kill()


async def test_a_start_that_is_cancelled_leaves_no_process(env: AsyncEnvironment, nap: str) -> None:
    started = []

    async def start() -> None:
        started.append(await env.start(f"sleep {nap}"))

    for delay in (0, 0.001, 0.003, 0.01):
        with anyio.move_on_after(delay):
            await start()
        for process in started:
            await process.kill()
        started.clear()
        assert not having(nap)


@on_both
async def test_a_process_that_does_not_read_is_ended_when_its_write_is_cancelled(
    env: AsyncEnvironment, nap: str
) -> None:
    process = await env.start(f"head -c 1 > /dev/null; echo begun; sleep {nap}")
    async with anyio.create_task_group() as group:
        group.start_soon(process.write, b"x" * 10_000_000)
        await process.expect("begun")
        group.cancel_scope.cancel()
    with anyio.fail_after(LONG):
        await process.wait()
    assert not having(nap)

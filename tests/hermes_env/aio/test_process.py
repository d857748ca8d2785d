"""Asynchronous background processes."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from anyio.lowlevel import current_token
from targets.awaiting import LONG, on_both_loops
from targets.processes import all_gone, processes_with

from environments import Process, ProcessEndedError, ProcessTimeoutError
from hermes_env.aio import AsyncEnvironment

pytestmark = pytest.mark.anyio


@on_both_loops
async def test_a_process_is_written_to_and_read(env: AsyncEnvironment) -> None:
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
    assert not processes_with(nap)
    assert await process.wait() == 143


async def test_an_expectation_that_is_cancelled_has_read_nothing(env: AsyncEnvironment) -> None:
    process = await env.start("echo early; cat")
    with anyio.move_on_after(0.2) as limit:
        await process.expect("late")
    assert limit.cancelled_caught
    assert await process.expect("early\n") == "early\n"
    await process.kill()


@on_both_loops
@pytest.mark.parametrize("is_ready", [False, True], ids=["in a new shell", "in a shell that is ready"])
async def test_a_start_that_is_cancelled_leaves_no_process(env: AsyncEnvironment, nap: str, is_ready: bool) -> None:
    for delay in (0, 0.0003, 0.0006, 0.001, 0.0015, 0.002, 0.003, 0.01):
        if is_ready:
            await env.execute_oneshot("true")
        with anyio.move_on_after(delay):
            await (await env.start(f"sleep {nap}")).kill()
        assert not processes_with(nap)


@pytest.mark.parametrize("seconds", [0, 0.3], ids=["before its end", "behind its end"])
async def test_a_start_that_is_recorded_and_cancelled_at_its_end_leaves_no_process(
    tmp_path: Path, nap: str, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    token, scope, observed_by = current_token(), anyio.CancelScope(), Process.observed_by

    def cancel_and_block() -> None:
        scope.cancel()
        time.sleep(seconds)

    def cancel(*args: Any) -> Process:
        cancelled = other.submit(anyio.from_thread.run_sync, cancel_and_block, token=token)
        if not seconds:
            cancelled.result()
        return observed_by(*args)

    monkeypatch.setattr(Process, "observed_by", cancel)
    async with AsyncEnvironment("local", record=str(tmp_path / "record.jsonl")) as env:
        with ThreadPoolExecutor() as other, scope:
            await env.start(f"sleep {nap}")
        assert scope.cancelled_caught
        assert all_gone(nap)


@on_both_loops
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
    assert not processes_with(nap)

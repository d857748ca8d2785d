"""Asynchronous pools, on asyncio and on trio."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import pytest
from targets.awaiting import LONG, on_both_loops, until

from environments.errors import StartStoppedError
from hermes_env.aio import AsyncEnvironment, AsyncPool

pytestmark = pytest.mark.anyio


async def test_tasks_share_the_environments_of_a_pool(work: Path) -> None:
    outputs: list[str] = []

    async def borrow(pool: AsyncPool) -> None:
        async with pool.environment() as env:
            assert isinstance(env, AsyncEnvironment)
            outputs.append((await env.execute("echo works")).output)

    local = {"backend": "local", "cwd": str(work)}
    async with AsyncPool(local, max=3, uses=2) as pool, anyio.create_task_group() as group:
        for _ in range(9):
            group.start_soon(borrow, pool)
    assert outputs == ["works\n"] * 9
    assert pool.stats().lent == pool.stats().idle == 0


async def test_a_task_that_is_cancelled_waits_no_longer(work: Path) -> None:
    async with AsyncPool({"backend": "local", "cwd": str(work)}, max=1) as pool, pool.environment() as env:
        with anyio.fail_after(LONG), anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(_cancel_when_it_waits, pool, scope)
                async with pool.environment():
                    pytest.fail("there is but one")
        assert scope.cancelled_caught and pool.stats().waiting == 0
        with pytest.raises(StartStoppedError, match="no environment of the pool was free"):
            async with pool.environment(timeout=0.05):
                pytest.fail("there is but one")
        assert (await env.execute("echo works")).output == "works\n"


@on_both_loops
async def test_waiting_leases_need_no_thread_each(work: Path) -> None:
    async with AsyncPool({"backend": "local", "cwd": str(work)}, max=1) as pool:
        async with pool.environment(), anyio.create_task_group() as group:
            before = set(threading.enumerate())
            for _ in range(16):
                group.start_soon(_wait_for_one, pool)
            await until(lambda: pool.stats().waiting == 16)
            assert len([each for each in set(threading.enumerate()) - before if "worker" in each.name]) <= 2
            group.cancel_scope.cancel()
        assert pool.stats().waiting == 0


async def _wait_for_one(pool: AsyncPool) -> None:
    async with pool.environment():
        pytest.fail("there is but one")


async def _cancel_when_it_waits(pool: AsyncPool, scope: anyio.CancelScope) -> None:
    await until(lambda: pool.stats().waiting == 1)
    scope.cancel()

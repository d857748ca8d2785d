"""A task that is cancelled at any turn of its event loop leaves no process, file or lock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from targets.awaiting import LONG, on_both_loops
from targets.processes import processes_with

from hermes_env.aio import AsyncEnvironment, aexecute_code

pytestmark = pytest.mark.anyio
TURNS = range(0, 61, 3)
SIZE = 1_000_000


async def stream(env: AsyncEnvironment, nap: str, source: Path) -> None:
    async with env.stream(f"echo begun; sleep {nap}") as pieces:
        async for _ in pieces:
            pass


async def start(env: AsyncEnvironment, nap: str, source: Path) -> None:
    await (await env.start(f"sleep {nap}")).kill()


async def put(env: AsyncEnvironment, nap: str, source: Path) -> None:
    await env.put_file(source, "copy")


async def script(env: AsyncEnvironment, nap: str, source: Path) -> None:
    code = f"import hermes_tools, subprocess; hermes_tools.tool(); subprocess.run(['sleep', '{nap}'])"
    await aexecute_code(code, env=env, tools={"tool": checkpoint})


DONE: dict[str, Callable[[AsyncEnvironment, str, Path], Awaitable[Any]]] = {
    "execute": lambda env, nap, _: env.execute(f"sleep {nap}"),
    "oneshot": lambda env, nap, _: env.execute_oneshot(f"echo out; sleep {nap}", on_output=lambda _: None),
    "stream": stream,
    "start": start,
    "put": put,
    "script": script,
}


async def cancel_by_scope(work: Callable[[], Awaitable[Any]], turns: int) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        for _ in range(turns):
            await checkpoint()
        group.cancel_scope.cancel()


async def cancel_task(work: Callable[[], Awaitable[Any]], turns: int) -> None:
    task = asyncio.ensure_future(work())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()):
        raise error


async def check(
    cancelled: Callable[..., Awaitable[None]], done: str, env: AsyncEnvironment, nap: str, folder: Path
) -> None:
    source = folder / "source"
    source.write_bytes(bytes(SIZE))
    await env.execute("true")
    for turns in TURNS:
        with anyio.fail_after(LONG):
            await cancelled(lambda: DONE[done](env, nap, source), turns)
            assert not processes_with(nap)
            assert (await env.execute("echo on")).output == "on\n"
        assert [(each.name, each.size) for each in await env.list_dir()] in ([], [("copy", SIZE)])
        await env.remove("copy", missing_ok=True)


@on_both_loops
@pytest.mark.parametrize("done", DONE)
async def test_a_cancel_scope_at_any_turn_leaves_nothing(
    env: AsyncEnvironment, nap: str, tmp_path: Path, done: str
) -> None:
    await check(cancel_by_scope, done, env, nap, tmp_path)


@pytest.mark.parametrize("done", DONE)
async def test_a_cancellation_by_asyncio_at_any_turn_leaves_nothing(
    env: AsyncEnvironment, nap: str, tmp_path: Path, done: str
) -> None:
    await check(cancel_task, done, env, nap, tmp_path)

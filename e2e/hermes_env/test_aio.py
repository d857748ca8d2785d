"""Cancelled work has ended in the container when the await returns."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import docker
import pytest
from targets.awaiting import LONG, until
from targets.engines import PYTHON_IMAGE
from targets.processes import processes_with

from environments import create_environment
from hermes_env.aio import AsyncEnvironment, aexecute_code

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def env() -> Iterator[AsyncEnvironment]:
    """Start a container for all tests of the module."""
    with create_environment("docker", image=PYTHON_IMAGE) as beneath:
        yield AsyncEnvironment.of(beneath)


async def test_a_command_is_ended_with_its_children(env: AsyncEnvironment, nap: str) -> None:
    await env.execute("cd /tmp")
    async with anyio.create_task_group() as group:
        group.start_soon(env.execute, f"(setsid sleep {nap} & sleep {nap})")
        await until(lambda: len(processes_with(nap)) >= 2)
        group.cancel_scope.cancel()
    assert not processes_with(f"sleep {nap}")
    assert (await env.execute("pwd")).output == "/tmp\n"


async def test_a_script_is_ended_with_its_tools_and_their_commands(env: AsyncEnvironment, nap: str) -> None:
    async def sleep() -> None:
        await env.execute(f"sleep {nap}")

    code = f"""
import hermes_tools, subprocess, threading
threading.Thread(target=hermes_tools.sleep).start()
subprocess.run(["sleep", "{nap}"])
"""
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: aexecute_code(code, env=env, tools={"sleep": sleep}))
        await until(lambda: len(processes_with(nap)) >= 2)
        group.cancel_scope.cancel()
    assert not processes_with(nap)


async def test_a_process_that_does_not_read_is_ended_when_its_write_is_cancelled(
    env: AsyncEnvironment, nap: str
) -> None:
    process = await env.start(f"head -c 1 > /dev/null; echo begun; sleep {nap}")
    async with anyio.create_task_group() as group:
        group.start_soon(process.write, b"x" * 50_000_000)
        await process.expect("begun")
        group.cancel_scope.cancel()
    with anyio.fail_after(LONG):
        await process.wait()
    assert not processes_with(nap)


async def test_a_transfer_that_is_cancelled_leaves_no_part_of_a_file(env: AsyncEnvironment) -> None:
    before = {each.name for each in await env.list_dir()}
    with anyio.move_on_after(0.1) as limit:
        for _ in range(100):
            await env.write_bytes("part", bytes(50_000_000))
            await env.remove("part")
    assert limit.cancelled_caught
    left = {each.name: each.size for each in await env.list_dir() if each.name not in before}
    assert left in ({}, {"part": 50_000_000})
    await env.remove("part", missing_ok=True)


@pytest.mark.parametrize("seconds", [0.05, 0.3])
async def test_a_start_that_is_cancelled_leaves_no_container(
    engine: docker.DockerClient, seconds: float, nap: str
) -> None:
    async with AsyncEnvironment("docker", image=PYTHON_IMAGE, task_id=f"aio-{nap}") as env:
        with anyio.move_on_after(seconds):
            await env.execute(f"sleep {nap}")
        assert not processes_with(nap)
    assert not engine.containers.list(all=True, filters={"label": f"hermes-environments.task=aio-{nap}"})

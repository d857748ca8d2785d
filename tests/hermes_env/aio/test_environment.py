"""Asynchronous environments, on asyncio and on trio."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from targets.awaiting import LONG, on_both_loops, until
from targets.processes import all_gone, processes_with

from environments import DeniedError, TerminalError, create_environment
from environments.approvals import CommandRequest
from environments.conformance.check import wait_until
from environments.errors import TargetFileNotFoundError
from environments.progress import Progress
from hermes_env.aio import AsyncEnvironment, limit_threads

pytestmark = pytest.mark.anyio


@on_both_loops
async def test_a_session_keeps_its_state(env: AsyncEnvironment, work: Path) -> None:
    await env.execute("export GREETING=hello; cd /")
    result = await env.execute('echo "$GREETING"; pwd')
    assert result.output == "hello\n/\n"
    assert await env.cwd == "/"
    assert (await env.execute_oneshot("pwd")).output == "/\n"
    assert (await env.target).kind == "machine"
    assert (await env.capabilities).same_machine
    assert (await env.address(80)).port == 80


async def test_files_are_moved(env: AsyncEnvironment, work: Path, tmp_path: Path) -> None:
    await env.write_bytes("in/there", b"text")
    assert await env.read_bytes("in/there", limit=2) == b"te"
    await env.write_text("in/there", "né\r\n", "latin-1")
    assert await env.read_bytes("in/there") == b"n\xe9\r\n"
    assert await env.read_text("in/there", "latin-1", limit=2) == "né"
    with pytest.raises(UnicodeDecodeError, match=r"position 1: .*'in/there'"):
        await env.read_text("in/there")
    await env.put_file(work / "in/there", "in/again")
    await env.get_dir("in", tmp_path / "out")
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["again", "there"]
    assert [each.name for each in await env.list_dir("in")] == ["again", "there"]
    await env.remove("in", recursive=True)
    assert not await env.exists("in")


@on_both_loops
async def test_a_transfer_that_is_cancelled_leaves_no_part_and_nothing_open(work: Path, tmp_path: Path) -> None:
    (work / "large").write_bytes(bytes(30_000_000))
    (tmp_path / "out").mkdir()
    told, scope = [], anyio.CancelScope()

    async def cancel(progress: Progress) -> None:
        told.append((progress.done, threading.get_ident()))
        scope.cancel()
        await anyio.sleep(LONG)

    async with AsyncEnvironment("local", cwd=str(work), on_progress=cancel) as env:
        await env.execute("true")
        for move in (
            lambda: env.get_file("large", tmp_path / "out/file"),
            lambda: env.put_file(work / "large", "copy"),
            lambda: env.get_dir(".", tmp_path / "out/sub"),
            lambda: env.put_dir(work, str(tmp_path / "out/there")),
        ):
            told.clear()
            with anyio.fail_after(LONG), anyio.CancelScope() as scope:
                await move()
            assert scope.cancelled_caught and told == [(0, threading.get_ident())]
            assert [each.name for each in work.iterdir()] == ["large"]
            assert [each for each in (tmp_path / "out").rglob("*") if not each.is_dir()] == []
            assert [each for each in psutil.Process().open_files() if each.path.startswith(str(tmp_path))] == []


async def test_awaited_calls_have_the_same_record_as_blocking_ones(work: Path, tmp_path: Path) -> None:
    async def refuse(request: CommandRequest) -> str | None:
        return "deny: no" if "refused" in request.command else None

    async def do(env: AsyncEnvironment) -> None:
        await env.execute("echo one")
        await env.execute_oneshot("echo two")
        await env.write_bytes("three", b"3")
        async for _ in env.stream("echo four; exit 4"):
            pass
        async with env.stream("echo five; sleep 1000") as stream:
            await anext(stream)
        with pytest.raises(DeniedError):
            await env.execute("echo refused")
        with pytest.raises(DeniedError):
            await anext(env.stream("echo refused too"))
        await (await env.start("echo six")).wait()

    record = tmp_path / "record.jsonl"
    async with AsyncEnvironment("local", cwd=str(work), record=str(record), before_command=refuse) as env:
        await do(env)
    events = [json.loads(line) for line in record.read_text().splitlines()]
    ended = {each["id"]: each for each in events if each["event"] == "end"}
    found = [(each["name"], ended[each["id"]]["status"]) for each in events if each["event"] == "begin"]
    assert found == [
        ("echo one", "success"),
        ("start local", "success"),
        ("echo two", "success"),
        ("write_bytes", "success"),
        ("echo four; exit 4", "error"),
        ("echo five; sleep 1000", "cancelled"),
        ("echo refused", "denied"),
        ("echo refused too", "denied"),
        ("echo six", "success"),
    ]


async def test_an_environments_error_is_raised_unchanged(env: AsyncEnvironment) -> None:
    with pytest.raises(TargetFileNotFoundError):
        await env.read_bytes("nowhere")
    with pytest.raises(ValueError, match="NUL"):
        await env.execute("a\0b")
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        await env.execute("true", nothing=1)  # type: ignore[call-arg]


async def test_after_its_block_nothing_is_left(env: AsyncEnvironment, nap: str) -> None:
    async with AsyncEnvironment("local") as other:
        await other.start(f"sleep {nap}")
        await until(lambda: processes_with(nap))
    assert all_gone(nap)
    with pytest.raises(TerminalError, match="cleaned up"):
        await other.execute("true")


@on_both_loops
async def test_a_block_that_is_cancelled_is_cleaned_up_too(nap: str) -> None:
    with anyio.CancelScope() as scope:
        async with AsyncEnvironment("local") as env:
            await env.start(f"sleep {nap}")
            await until(lambda: processes_with(nap))
            scope.cancel()
            await anyio.sleep(LONG)
    assert scope.cancelled_caught
    assert not processes_with(nap)


async def test_an_environment_that_there_is_can_be_awaited(work: Path) -> None:
    with create_environment("local", cwd=str(work)) as beneath:
        env = AsyncEnvironment.of(beneath)
        await env.execute("cd /")
        assert beneath.execute("pwd").output == "/\n"
        assert env.sync is beneath
        assert (env.backend, env.settings, env.busy) == ("local", beneath.settings, False)


def test_several_event_loops_use_one_after_the_other(anyio_backend: str, work: Path) -> None:
    env = AsyncEnvironment("local", cwd=str(work))

    async def count() -> str:
        return (await env.execute("N=$((N + 1)); echo $N")).output

    assert [anyio.run(count, backend=backend) for backend in (anyio_backend, "trio", "asyncio")] == [
        "1\n",
        "2\n",
        "3\n",
    ]
    anyio.run(env.cleanup, backend=anyio_backend)


class TestCancelled:
    """A cancelled call's processes end in the target before the await returns."""

    @on_both_loops
    async def test_a_command_is_ended_with_its_children(self, env: AsyncEnvironment, nap: str) -> None:
        for run in (env.execute, env.execute_oneshot):
            async with anyio.create_task_group() as group:
                group.start_soon(run, f"(setsid sleep {nap} & sleep {nap})")
                await until(lambda: len(processes_with(nap)) >= 2)
                group.cancel_scope.cancel()
            assert not processes_with(f"sleep {nap}")
        assert (await env.execute("echo on")).output == "on\n"

    async def test_a_time_limit_ends_a_command(self, env: AsyncEnvironment, nap: str) -> None:
        await env.execute("KEPT=1")
        with anyio.move_on_after(0.2) as limit:
            await env.execute(f"sleep {nap}")
        assert limit.cancelled_caught
        assert not processes_with(nap)
        with pytest.raises(TimeoutError), anyio.fail_after(0.2):
            await env.execute(f"sleep {nap}")
        assert not processes_with(nap)
        assert (await env.execute("echo $KEPT")).output == "1\n"

    async def test_asyncios_cancel_and_timeout_end_a_command(self, env: AsyncEnvironment, nap: str) -> None:
        task = asyncio.create_task(env.execute(f"sleep {nap}"))
        await until(lambda: processes_with(nap))
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not processes_with(nap)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(env.execute(f"sleep {nap}"), 0.2)
        assert not processes_with(nap)

    async def test_a_command_that_waits_for_its_turn_does_not_run(self, env: AsyncEnvironment, work: Path) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(env.execute, "while [ ! -e go ]; do sleep 0.05; done")
            await until(lambda: env.busy)
            with anyio.move_on_after(0.2) as limit:
                await env.execute("touch ran")
            await env.write_bytes("go", b"")
        assert limit.cancelled_caught
        assert not (work / "ran").exists()


async def execute_with_callback(env: AsyncEnvironment, command: str) -> None:
    await env.execute(command, on_output=lambda _: None)


async def read_stream(env: AsyncEnvironment, command: str) -> None:
    async for _ in env.stream(command):
        pass


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "run", [AsyncEnvironment.execute, AsyncEnvironment.execute_oneshot, execute_with_callback, read_stream]
)
def test_a_command_whose_event_loop_was_closed_is_ended(run: Callable[..., Any], work: Path, nap: str) -> None:
    loop = asyncio.new_event_loop()
    env = AsyncEnvironment("local", cwd=str(work))
    task = loop.create_task(run(env, f"sleep {nap}"))
    loop.run_until_complete(until(lambda: processes_with(nap)))
    loop.close()
    task._log_destroy_pending = False  # or asyncio would log it
    del task
    gc.collect()
    assert wait_until(lambda: not processes_with(nap) and not env.busy, LONG)
    assert asyncio.run(env.execute("echo on")).output == "on\n"
    asyncio.run(env.cleanup())


async def test_an_environment_is_in_use_until_a_command_has_ended(env: AsyncEnvironment) -> None:
    for run in (env.execute, env.execute_oneshot):
        await run("true")
        before = env.sync._last_used
        await run("sleep 0.1")
        assert env.sync._last_used - before >= 0.1


def test_control_c_ends_the_command_before_the_program(anyio_backend: str, nap: str) -> None:
    code = f"""
import anyio
from environments.progress import Progress
from hermes_env.aio import AsyncEnvironment

async def main():
    env = AsyncEnvironment("local")
    try:
        await env.execute("sleep {nap}")
    finally:
        print("after it", flush=True)
        await env.cleanup()

anyio.run(main, backend="{anyio_backend}")
"""
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with program:
        assert wait_until(lambda: [each for each in processes_with(nap) if each.name() == "sleep"], LONG)
        program.send_signal(signal.SIGINT)
        assert program.stdout and program.stdout.readline() == "after it\n"
        assert not [each for each in processes_with(nap) if each.name() == "sleep"]
        error = program.communicate()[1]
    assert error.splitlines()[-1] == "KeyboardInterrupt"
    assert program.returncode == -signal.SIGINT


class TestCallbacks:
    """A callback may be a coroutine function, awaited on the loop."""

    async def test_output_is_awaited_on_the_loop(self, env: AsyncEnvironment) -> None:
        pieces = []

        async def note(piece: str, channel: str) -> None:
            await anyio.sleep(0)
            pieces.append((piece, channel, threading.get_ident()))

        await env.execute("echo out; sleep 0.1; echo err >&2", stderr="separate", on_output=note)
        assert pieces == [("out\n", "stdout", threading.get_ident()), ("err\n", "stderr", threading.get_ident())]

    @on_both_loops
    async def test_an_error_of_a_callback_ends_the_command_and_is_raised(self, env: AsyncEnvironment, nap: str) -> None:
        async def refuse(piece: str) -> None:
            raise LookupError(piece)

        with pytest.raises(LookupError, match="begun"):
            await env.execute(f"echo begun; sleep {nap}", on_output=refuse)
        assert not processes_with(nap)

    @on_both_loops
    async def test_a_callback_is_cancelled_with_its_command(self, env: AsyncEnvironment, nap: str) -> None:
        begun, ended = anyio.Event(), anyio.Event()

        async def wait(piece: str) -> None:
            begun.set()
            try:
                await anyio.sleep(LONG)
            finally:
                ended.set()

        async with anyio.create_task_group() as group:
            group.start_soon(lambda: env.execute(f"echo begun; sleep {nap}", on_output=wait))
            await begun.wait()
            group.cancel_scope.cancel()
        assert ended.is_set()
        assert not processes_with(nap)

    async def test_a_callback_may_await_one_shots_and_not_its_own_command(self, env: AsyncEnvironment) -> None:
        outputs = []

        async def run(piece: str) -> None:
            outputs.append((await env.execute_oneshot("echo beside")).output)
            with pytest.raises(TerminalError, match="await execute_oneshot"):
                await env.execute("true")

        await env.execute("echo out", on_output=run)
        assert outputs == ["beside\n"]

    @on_both_loops
    async def test_hooks_and_approvals_are_awaited(self, work: Path) -> None:
        loops = []

        async def ask(request: CommandRequest) -> str | None:
            await anyio.sleep(0)
            loops.append(threading.get_ident())
            return "ask: really?" if "rm" in request.command else None

        async def approve(request: CommandRequest, question: str) -> bool:
            await anyio.sleep(0)
            loops.append(threading.get_ident())
            return False

        async with AsyncEnvironment("local", cwd=str(work), before_command=ask, approve=approve) as env:
            assert (await env.execute("echo on")).output == "on\n"
        assert set(loops) == {threading.get_ident()}


class TestThreads:
    """A bounded number of threads."""

    def test_a_number_of_threads_has_to_be_one(self) -> None:
        with pytest.raises(ValueError, match="commands is 0"):
            limit_threads(commands=0)
        with pytest.raises(TypeError, match="scripts"):
            limit_threads(scripts=1.5)  # type: ignore[arg-type]

"""Uses of a sandbox by deepagents that LangChain's tests do not check."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from place import PLACE
from threads import threads_of

from environments import create_environment
from hermes_env.plugs.deepagents import HermesSandbox

if PLACE.own:
    pytest.skip("it is about the plug", allow_module_level=True)


async def test_a_command_ends_in_the_sandbox_when_nobody_awaits_it() -> None:
    nap = f"3100.{secrets.randbelow(10**9):09}"
    looking = f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep {nap}'"
    with create_environment(**PLACE.settings) as env:
        sandbox = HermesSandbox(env)
        tool_call = asyncio.create_task(sandbox.aexecute(f"sleep {nap}"))
        while (await sandbox.aexecute(looking)).output == "0\n":
            await asyncio.sleep(0.05)
        tool_call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await tool_call
        async with asyncio.timeout(30):
            while (await sandbox.aexecute(looking)).output != "0\n":
                await asyncio.sleep(0.05)


@pytest.mark.skipif("local" not in PLACE.tags, reason="clients of engines and of SSH have threads of their own")
async def test_commands_that_are_awaited_need_no_thread_each() -> None:
    with create_environment(**PLACE.settings) as env:
        sandbox = HermesSandbox(env)
        assert await threads_of(lambda: sandbox.aexecute("sleep 0.3")) < 5


async def test_files_are_written_and_read_and_errors_have_deepagents_names() -> None:
    with create_environment(**PLACE.settings) as env:
        sandbox, place = HermesSandbox(env), (await asyncio.to_thread(env.execute, "mktemp -d")).output.strip()
        files = [(f"{place}/sub/a", b"x"), (place, b"y"), ("relative", b"z")]
        told = [(each.path, each.error) for each in await sandbox.aupload_files(files)]
        assert told == [(each.path, each.error) for each in await asyncio.to_thread(sandbox.upload_files, files)]
        assert [error for _, error in told] == [None, "is_directory", "invalid_path"]
        paths = [f"{place}/sub/a", f"{place}/none", place, "relative"]
        read = await sandbox.adownload_files(paths)
        assert read == await asyncio.to_thread(sandbox.download_files, paths)
        assert [each.content for each in read] == [b"x", None, None, None]
        assert [each.error for each in read] == [None, "file_not_found", "is_directory", "invalid_path"]
        env.remove(place, recursive=True)

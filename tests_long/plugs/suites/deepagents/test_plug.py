"""What deepagents does with sandboxes beside what LangChain's tests check."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from place import PLACE

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

"""Asynchronous Python sessions."""

from __future__ import annotations

import anyio
import pytest
from targets.awaiting import on_both_loops

from code_execution import PythonSession
from environments import TerminalError
from hermes_env.aio import AsyncEnvironment, AsyncPythonSession, aexecute_code

pytestmark = pytest.mark.anyio


@on_both_loops
async def test_scripts_share_what_they_define_and_their_tools_are_awaited(env: AsyncEnvironment) -> None:
    lock = anyio.Lock()

    async def add(a: int, b: int) -> int:
        async with lock:
            return a + b

    pieces: list[str] = []
    async with AsyncPythonSession(env, tools={"add": add}) as python:
        await python.execute("import hermes_tools\nx = hermes_tools.add(1, 2)")
        assert (await python.execute("print(x)\nx", on_output=pieces.append)).value == "3"
        assert (await aexecute_code("hermes_tools.add(x, 1)", session=python)).value == "4"
        await python.reset()
        assert "NameError" in (await python.execute("x")).stderr
    assert "".join(pieces) == "3\n"
    with pytest.raises(TerminalError, match="session is closed"):
        raise TerminalError((await python.execute("1")).error)


@on_both_loops
async def test_a_task_that_is_cancelled_interrupts_its_script_and_keeps_the_variables(env: AsyncEnvironment) -> None:
    async with AsyncPythonSession(env) as python:
        await python.execute("import time\nx = 1")
        with anyio.move_on_after(0.5) as scope:
            await python.execute("x = 2\ntime.sleep(60)")
        assert scope.cancelled_caught
        after = await python.execute("x")
        assert (after.value, after.note) == ("2", None)


@on_both_loops
async def test_a_plain_session_and_that_of_the_environment_can_be_awaited(env: AsyncEnvironment) -> None:
    with PythonSession(env.sync) as plain:
        assert (await aexecute_code("1 + 1", session=plain)).value == "2"
    await aexecute_code("x = 1", env=env, session=True)
    assert (await aexecute_code("x", env=env, session=True)).value == "1"

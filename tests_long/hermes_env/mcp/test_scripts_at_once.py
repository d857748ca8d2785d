"""Twenty scripts of a client at once: some end, some time out, some are cancelled, some ignore TERM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from targets.mcp_server import Session, run, serving
from targets.processes import all_gone

from code_execution.limits import SCRIPT_GRACE
from environments.conformance.check import wait_until

if TYPE_CHECKING:
    from mcp.client.client import Client

pytestmark = [pytest.mark.xdist_group("mcp"), pytest.mark.timeout(300)]

LIMIT = 6
BOUND = LIMIT + SCRIPT_GRACE + 5
"""Seconds after which a script has returned, by the contract."""
ENDS = "import subprocess\nsubprocess.Popen(['sleep', '{nap}'], start_new_session=True)\nprint({number} * 2)"
SLEEPS = "import subprocess, time\nsubprocess.Popen(['sleep', '{nap}'])\ntime.sleep(1000)"
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEPS
KINDS = [(ENDS, None)] * 7 + [(SLEEPS, None)] * 4 + [(STUBBORN, None)] * 3 + [(SLEEPS, 2.0)] * 3 + [(STUBBORN, 3.0)] * 3
"""Scripts, each with the seconds after which its call is cancelled."""


@pytest.fixture
def server_variables(server_variables: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Variables of a server with a short time limit for scripts."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(f"code_execution: {{timeout: {LIMIT}}}\n")
    return {**server_variables, "HERMES_HOME": str(home)}


async def check_scripts(client: Client, nap: str) -> None:
    """Run the scripts, and check each result."""
    problems: list[Any] = []

    async def call(number: int, code: str, cancelled_after: float | None) -> None:
        with anyio.move_on_after(cancelled_after):
            given = {"code": code.format(nap=nap, number=number)}
            result = (await client.call_tool("execute_code", given)).structured_content
            is_right = result["status"] == "timeout" or (code == ENDS and result["output"] == f"{number * 2}\n")
            if not is_right or result["duration_seconds"] > BOUND:
                problems.append((number, result))

    async with anyio.create_task_group() as group:
        for number, (code, cancelled_after) in enumerate(KINDS):
            group.start_soon(call, number, code, cancelled_after)
    assert problems == []
    assert await anyio.to_thread.run_sync(lambda: wait_until(lambda: all_gone(nap), 60))
    result = await client.call_tool("execute_code", {"code": "print('next')"})
    assert result.structured_content["output"] == "next\n"


def test_twenty_scripts_at_once_over_stdio(over_stdio: Session, nap: str) -> None:
    async def test() -> None:
        async with over_stdio() as client:
            await check_scripts(client, nap)

    run(test)


def test_twenty_scripts_at_once_over_http_while_another_client_leaves(
    server_variables: dict[str, str], tmp_path: Path, nap: str
) -> None:
    async def test() -> None:
        with serving(server_variables, "--cwd", str(tmp_path)) as server:

            async def go_away() -> None:
                with anyio.move_on_after(3):
                    async with server.client() as other:
                        await other.call_tool("execute_code", {"code": STUBBORN.format(nap=nap)})

            async with server.client() as client, anyio.create_task_group() as group:
                group.start_soon(go_away)
                await check_scripts(client, nap)

    run(test)

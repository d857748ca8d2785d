"""The command line, MCP and asyncio work with their own extra alone, and name a missing extra in their error."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from targets.small_install import python_with, variables

pytestmark = pytest.mark.timeout(900)  # the first run installs packages
Python = Callable[..., "subprocess.CompletedProcess[str]"]

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
AWAIT_A_COMMAND = """
import asyncio
from hermes_env.aio import AsyncEnvironment

async def main():
    async with AsyncEnvironment("local") as env:
        print((await env.execute("echo hello")).output, end="")

asyncio.run(main())
"""
RECORD_A_COMMAND = """
import sys
from environments import create_environment

with create_environment("local", record="run.jsonl") as env:
    env.execute("true")
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


@pytest.fixture
def python(tmp_path: Path) -> Python:
    def run(extra: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(python_with(extra)), *words],
            input=stdin,
            env=variables(tmp_path),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_mcp_server_answers_with_its_extra_alone(python: Python) -> None:
    done = python("mcp", "-m", "hermes_env", "mcp", "--backend", "local", stdin=json.dumps(INITIALIZE) + "\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"]


def test_an_environment_is_awaited_with_its_extra_alone(python: Python) -> None:
    done = python("aio", "-W", "error", "-c", AWAIT_A_COMMAND)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")


def test_a_run_is_recorded_and_shown_with_no_extra(python: Python, tmp_path: Path) -> None:
    done = python("", "-W", "error", "-c", RECORD_A_COMMAND)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    shown = python("", "-m", "hermes_env", "report", "run.jsonl")
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "run.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("-m", "hermes_env", "mcp"), "mcp"),
        (("-c", "import hermes_env.aio"), "aio"),
        (("-c", "from code_execution import mcp_tools; mcp_tools(None)"), "mcp"),
    ],
)
def test_a_door_whose_library_is_missing_names_its_extra(python: Python, words: tuple[str, ...], extra: str) -> None:
    done = python("", *words)
    assert done.returncode != 0
    assert f"pip install 'hermes-environments[{extra}]'" in done.stderr

"""The cost of local commands and scripts in round trips, streams, threads and imports. tests_long/cost has more."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.stream_traffic import Traffic, count_traffic

from code_execution import execute_code
from environments import BaseEnvironment, create_environment
from environments.conformance.check import wait_until
from environments.local import LocalEnvironment

SHELLS = 3
"""The session's shell, one for one-shots, and one to kill processes, opened soon."""


@pytest.fixture
def traffic() -> Iterator[Traffic]:
    with count_traffic(LocalEnvironment) as found:
        yield found


@pytest.fixture
def env(traffic: Traffic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BaseEnvironment]:
    """An environment with all shells open."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    with create_environment("local", cwd=str(tmp_path)) as made:
        made.execute("true")
        made.execute_oneshot("true")
        made.prepare()  # waits until each of them is ready
        assert wait_until(lambda: traffic.streams == SHELLS, 60)
        yield made


def test_a_command_is_one_round_trip_and_starts_no_thread(env: BaseEnvironment, traffic: Traffic) -> None:
    commands: dict[str, Callable[[], object]] = {
        "execute": lambda: env.execute("true"),
        "execute with exports": lambda: env.execute("export HERMES_COST=1"),
        "execute_oneshot": lambda: env.execute_oneshot("true"),
    }
    threads = set(threading.enumerate())
    costs = {}
    for name, run in commands.items():
        before = traffic.turns
        for _ in range(8):
            run()
        costs[name] = (traffic.turns - before) / 8
    assert {name: cost for name, cost in costs.items() if cost > 1} == {}
    assert traffic.streams == SHELLS
    assert set(threading.enumerate()) <= threads


def test_a_tool_call_of_a_script_opens_no_stream(env: BaseEnvironment, traffic: Traffic) -> None:
    seen: list[dict[str, float]] = []
    code = "from hermes_tools import note\nfor _ in range(20): note()"
    result = execute_code(code, env=env, tools={"note": lambda: seen.append(traffic.counts())}, transport="relay")
    assert result.status == "success", result.output
    assert seen[19]["streams"] == seen[0]["streams"]
    assert seen[19]["round_trips"] - seen[9]["round_trips"] <= 10


def test_a_first_command_here_imports_no_client_of_another_backend() -> None:
    code = """
import sys
from environments import create_environment
with create_environment("local") as env:
    env.execute("true")
print(*{"docker", "requests", "paramiko", "modal", "daytona", "mcp", "httpx", "pydantic"} & set(sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"

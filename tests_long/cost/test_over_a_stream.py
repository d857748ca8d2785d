from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from targets.backends import docker, singularity, ssh
from targets.stream_traffic import Traffic, count_traffic

from code_execution import execute_code
from cost.budget import OVER_A_STREAM, excess
from environments import BaseEnvironment
from environments.conformance import Subject
from environments.conformance.check import wait_until
from environments.registry import backend_class

TIMES = 4
SHELLS = 3
"""The session's shell, one for one-shots, and one to kill processes, opened soon after."""
_LAST_PROCESS = "/proc/sys/kernel/ns_last_pid"
"""The file with the id of the process that was started last in the target's PID namespace."""
_CALLING = f"""
from hermes_tools import note
def last():
    with open({_LAST_PROCESS!r}) as file:
        return int(file.read())
for _ in range({{calls}}):
    note(last())
"""


@dataclass
class Engine:
    """A target, and the traffic on its streams."""

    env: BaseEnvironment
    traffic: Traffic
    counts_processes: bool
    """True if no other program starts processes in the target's PID namespace."""

    def last_process(self) -> int:
        # A one-shot: the session would have to report its state afterwards.
        return int(self.env.execute_oneshot(f"read -r n <{_LAST_PROCESS}; echo $n").output)

    def counts(self, last_process: int | None = None) -> dict[str, float]:
        found = self.traffic.counts()
        if self.counts_processes:
            found["processes"] = self.last_process() if last_process is None else last_process
        return found


def difference(less: dict[str, float], more: dict[str, float]) -> dict[str, float]:
    return {name: more[name] - less[name] for name in less}


def cost_of(engine: Engine, action: Callable[[], object]) -> dict[str, float]:
    """Return the cost of an action: the difference between some runs and twice as many."""
    for _ in range(3):
        action()
    costs = []
    for times in (TIMES, 2 * TIMES):
        before = engine.counts()
        for _ in range(times):
            action()
        costs.append(difference(before, engine.counts()))
    return {name: count / TIMES for name, count in difference(*costs).items()}


def cost_of_calls(engine: Engine, transport: str) -> dict[str, float]:
    """Return the cost of a tool call that reports the target's last process id, counted within one script."""
    seen: list[dict[str, float]] = []

    def note(last_process: int) -> None:
        """Record the counts."""
        seen.append(engine.counts(last_process))

    code = _CALLING.format(calls=4 * TIMES)
    result = execute_code(code, env=engine.env, tools={"note": note}, transport=transport, timeout=100)
    assert result.status == "success", result.output
    return {name: count / (2 * TIMES) for name, count in difference(seen[TIMES], seen[3 * TIMES]).items()}


ENGINES = {"docker": docker, "singularity": singularity, "ssh": ssh}


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    subject: Subject
    with (
        count_traffic(backend_class(request.param)) as traffic,
        ENGINES[request.param](folder) as subject,
        subject.make(timeout=100) as env,
    ):
        for _ in range(3):  # the first command opens shells for later ones in the background
            env.execute("true")
            env.execute_oneshot("true")
        wait_until(lambda: traffic.streams == SHELLS, 60)
        assert traffic.streams == SHELLS
        yield Engine(env, traffic, counts_processes=request.param != "ssh")


COMMANDS: dict[str, Callable[[BaseEnvironment], object]] = {
    "execute, builtin": lambda env: env.execute("true"),
    "execute, program": lambda env: env.execute("/bin/true"),
    "execute, exports": lambda env: env.execute("export HERMES_COST=1"),
    "execute_oneshot, builtin": lambda env: env.execute_oneshot("true"),
    "execute_oneshot, program": lambda env: env.execute_oneshot("/bin/true"),
}


def test_no_command_costs_more_than_its_budget(engine):
    counts = {thing: cost_of(engine, lambda thing=thing: COMMANDS[thing](engine.env)) for thing in COMMANDS}
    assert [line for thing in counts for line in excess(thing, counts[thing], OVER_A_STREAM[thing])] == []


@pytest.mark.parametrize("transport", ["relay", "file"])
def test_no_tool_call_costs_more_than_its_budget(engine, transport):
    thing = f"tool call, {transport}"
    assert excess(thing, cost_of_calls(engine, transport), OVER_A_STREAM[thing]) == []


def noop() -> None:
    """Do nothing."""


SCRIPTS: dict[str, Callable[[BaseEnvironment], object]] = {
    "script": lambda env: execute_code("print(1)", env=env, tools={}),
    "script with a tool call": lambda env: execute_code(
        "import hermes_tools; hermes_tools.noop()", env=env, tools={"noop": noop}
    ),
}


def test_no_script_costs_more_than_its_budget(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    counts = {name: cost_of(engine, lambda name=name: SCRIPTS[name](engine.env)) for name in SCRIPTS}
    assert [line for name in counts for line in excess(name, counts[name], OVER_A_STREAM[name])] == []

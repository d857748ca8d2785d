"""The clients of the official SDKs, over stdio and HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from targets.mcp_server import WebServer
from targets.processes import all_gone

from environments.conformance.check import wait_until
from mcp_clients.clients import OfficialClient, clients

pytestmark = [
    pytest.mark.xdist_group("mcp clients"),
    pytest.mark.timeout(600),  # the first run installs the packages
]
each_client = pytest.mark.parametrize("client", clients())
PAUSE = 6.0
"""Seconds. Many servers close an idle connection sooner."""

Run = Callable[..., Any]


@pytest.fixture
def run(client: OfficialClient, web_server: WebServer, server_variables: dict[str, str], tmp_path: Path) -> Run:
    """Run a scenario with the client."""
    return lambda scenario, **more: client.run(scenario, web_server, server_variables, tmp_path, **more)


@each_client
def test_a_session_from_its_greeting_to_its_errors(run: Run) -> None:
    found = run("tour")
    assert found["name"] == "hermes-env"
    assert {"terminal", "execute_code", "read_file", "patch"} <= set(found["tools"])
    assert found["command"] == {"output": "there\n", "exit_code": 3, "error": None}
    assert found["script"] == "42\n"
    assert found["failed"][0] is True
    assert "not-there" in found["failed"][1]
    assert found["unknown"][0] == -32602
    assert "there is no tool 'nothing'" in found["unknown"][1]


@each_client
def test_a_cancelled_script_is_ended_and_the_session_goes_on(run: Run, nap: str) -> None:
    code = f"import subprocess\nchild = subprocess.Popen(['sleep', '{nap}'])\nprint('begun', flush=True)\nchild.wait()"
    assert run("cancel", code=code) == {"ended": "cancelled", "next": "next\n"}
    assert wait_until(lambda: all_gone(nap), 30)


@each_client
def test_progress_and_messages_come_while_a_command_runs(run: Run) -> None:
    found = run("progress", command_text="echo first; sleep 2; echo second")
    assert found["output"] == "first\nsecond\n"
    amounts = [amount for amount, _ in found["told"]]
    assert amounts == sorted(set(amounts))
    assert "first" in [message for _, message in found["told"]]
    assert "first\n" in "".join(map(str, found["logged"]))


@pytest.mark.parametrize(("answer", "is_allowed"), [("allow once", True), ("deny", False)])
@each_client
def test_the_client_s_user_is_asked(run: Run, answer: str, is_allowed: bool) -> None:
    found = run("elicitation", answer=answer)
    assert len(found["asked"]) == 1
    assert "touch asked" in found["asked"][0]
    assert (found["result"].get("output") == "done\n") is is_allowed
    assert bool(found["result"]["error"]) is not is_allowed


@each_client
def test_a_client_that_cannot_ask_is_told_of_a_denial(run: Run) -> None:
    found = run("elicitation")
    assert found["asked"] == []
    assert "the client has no way to ask for it" in found["result"]["error"]


@each_client
def test_a_client_goes_on_after_a_pause(run: Run) -> None:
    assert run("pause", pause=PAUSE) == {"first": "kept\n/\n", "several": ["1\n"] * 3}


@pytest.mark.parametrize("client", [each for each in clients() if each.values[0].keeps_sessions])
def test_a_session_that_was_left_is_found_again_until_it_is_ended(run: Run) -> None:
    found = run("reconnect", pause=PAUSE)
    assert found["kept"] == "kept\n"
    assert "404" in found["late"] or "Session not found" in found["late"], found

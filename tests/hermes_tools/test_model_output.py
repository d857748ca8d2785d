from __future__ import annotations

import threading
from pathlib import Path

import pytest
from targets.processes import all_gone, processes_with

from environments import CancelScope, create_environment
from environments.base import BaseEnvironment
from environments.conformance.check import wait_until
from hermes_tools.model_output import watching_output
from hermes_tools.process import process
from hermes_tools.terminal import terminal


def test_output_is_passed_on_while_the_command_runs(env: BaseEnvironment, tmp_path: Path) -> None:
    seen: list[str] = []

    def go_on_when_seen(text: str) -> None:
        seen.append(text)
        (tmp_path / "go").touch()

    with watching_output(go_on_when_seen):
        result = terminal(env, "echo early; while [ ! -e go ]; do sleep 0.1; done; echo late", timeout=60)
    assert result["exit_code"] == 0
    assert "".join(seen) == result["output"] == "early\nlate\n"
    terminal(env, "echo unwatched")
    assert "".join(seen) == "early\nlate\n"


def test_passed_on_output_has_no_secrets_and_no_terminal_controls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "s3cret-value-0815")
    seen: list[str] = []
    with (
        create_environment("local", cwd=str(tmp_path), env_passthrough=["SERVICE_TOKEN"]) as env,
        watching_output(seen.append),
    ):
        terminal(env, r"""printf '\033[31m%s\033[0m\n' "$SERVICE_TOKEN"; printf %s "$SERVICE_TOKEN" """)
    assert "".join(seen) == "[REDACTED:SERVICE_TOKEN]\n[REDACTED:SERVICE_TOKEN]"


def test_a_wait_for_a_process_ends_with_its_scope_and_the_process_goes_on(env: BaseEnvironment) -> None:
    started = terminal(env, "sleep 1000", background=True)["process_id"]
    scope = CancelScope()
    results: list[object] = []

    def wait() -> None:
        with scope.active():
            results.append(process(env, "wait", started, timeout=1000))

    waiting = threading.Thread(target=wait)
    waiting.start()
    scope.cancel()
    waiting.join(60)
    assert results == [{"error": "the call was interrupted"}]
    assert process(env, "poll", started)["status"] == "running"


def test_a_command_that_has_a_terminal_ends_with_its_scope(env: BaseEnvironment, nap: str) -> None:
    scope = CancelScope()
    results: list[object] = []

    def run() -> None:
        with scope.active():
            results.append(terminal(env, f"sleep {nap}", pty=True))

    running = threading.Thread(target=run)
    running.start()
    assert wait_until(lambda: bool(processes_with(nap)), 30)
    scope.cancel()
    running.join(60)
    assert results == [{"output": "", "exit_code": -1, "error": "the call was interrupted"}]
    assert all_gone(nap)

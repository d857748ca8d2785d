"""Time-outs before a script runs, and the messages of its start."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from targets.plain_local import PlainLocal, RemotePlainLocal

from code_execution import execute_code
from environments import BaseEnvironment, CancelScope, EnvironmentStartError, load_settings
from environments.cancellation import in_no_scope
from rpc import generate_stub


class SlowStart(PlainLocal):
    """A target with a start that waits for an event."""

    may_start = threading.Event()

    def start_target(self) -> None:
        self.may_start.wait(60)
        super().start_target()


class FailingStart(PlainLocal):
    """A target with a failing start."""

    def start_target(self) -> None:
        super().start_target()
        raise EnvironmentStartError("no such target")


def test_a_time_out_during_the_start_reports_that_the_script_did_not_run(tmp_path: Path) -> None:
    SlowStart.may_start = threading.Event()
    with SlowStart(load_settings("local", cwd=str(tmp_path))) as env:
        result = execute_code("open('ran', 'w')", env=env, timeout=0.25)
        said = "The time limit of 0.25 s was used up by starting the target; the script did not run."
        assert (result.status, result.exit_code, result.output, result.error) == ("timeout", None, said, said)
        assert result.tool_calls_made == 0
        SlowStart.may_start.set()
    assert not (tmp_path / "ran").exists()


def test_an_interrupt_ends_the_wait_for_a_start(tmp_path: Path) -> None:
    SlowStart.may_start = threading.Event()
    interrupt = threading.Event()
    interrupt.set()
    with SlowStart(load_settings("local", cwd=str(tmp_path))) as env:
        result = execute_code("open('ran', 'w')", env=env, interrupt=interrupt)
        assert (result.status, result.exit_code) == ("interrupted", None)
        SlowStart.may_start.set()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("backend", [PlainLocal, RemotePlainLocal])
def test_a_scope_that_is_cancelled_while_a_script_is_got_ready_is_no_failure(
    tmp_path: Path, backend: type[PlainLocal], monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = CancelScope()

    def stub(*given: object) -> str:
        scope.cancel()
        return generate_stub(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("code_execution.run.generate_stub", stub)
    with backend(load_settings("local", cwd=str(tmp_path))) as env, scope.active():
        result = execute_code("open('ran', 'w')", env=env)
        assert (result.status, result.exit_code) == ("interrupted", None)
        with in_no_scope():
            assert not env.execute(f"ls {env.internal.scratch_directory()} | grep script-").output
    assert not (tmp_path / "ran").exists()


def test_a_target_that_cannot_be_started_is_an_error_and_no_matter_of_time(tmp_path: Path) -> None:
    with (
        FailingStart(load_settings("local", cwd=str(tmp_path))) as env,
        pytest.raises(EnvironmentStartError, match="no such target"),
    ):
        execute_code("print(1)", env=env)


def test_a_limit_of_no_time_at_all_is_one_of_the_start(env: BaseEnvironment) -> None:
    result = execute_code("print(1)", env=env, timeout=1e-9)
    assert (result.status, result.exit_code) == ("timeout", None)
    assert (
        result.output == "The time limit of 0.000000001 s was used up by starting the target; the script did not run."
    )


def test_a_script_cannot_speak_as_its_start(env: BaseEnvironment) -> None:
    code = """
import sys
word = open(sys.path[0] + "/begin", "rb").read().split()[0]
sys.stderr.buffer.write(b"\\x1e" + word + b" -\\n\\x1e" + word + b" failed\\n\\x1e" + word + b" 7\\n")
sys.exit(5)
"""
    result = execute_code(code, env=env, transport="socket")
    assert (result.status, result.exit_code) == ("error", 5)
    assert " 7\n" in result.stderr

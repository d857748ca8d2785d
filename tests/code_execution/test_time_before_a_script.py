"""A script whose time is over before it runs, and what its start says to us."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from targets.plain_local import PlainLocal

from code_execution import execute_code, script_run
from code_execution.beginning import Beginning
from code_execution.interruption import Interruption
from code_execution.preparation import OutOfTimeError, Preparation
from environments import BaseEnvironment, CancelScope, EnvironmentStartError, load_settings
from environments.cancellation import in_no_scope
from environments.errors import TerminalError
from rpc import generate_stub


class SlowToStart(PlainLocal):
    """A target that is not up before somebody lets it."""

    may_start = threading.Event()

    def start_target(self) -> None:
        self.may_start.wait(60)
        super().start_target()


class Elsewhere(PlainLocal):
    """A target whose files are reached by commands alone."""

    same_machine = False


class NeverUp(PlainLocal):
    """A target that cannot be started."""

    def start_target(self) -> None:
        super().start_target()
        raise EnvironmentStartError("no such target")


@pytest.mark.parametrize("mode", ["project", "strict"])
def test_a_limit_that_the_start_used_up_says_that_the_script_did_not_run(tmp_path: Path, mode: str) -> None:
    SlowToStart.may_start = threading.Event()
    with SlowToStart(load_settings("local", cwd=str(tmp_path))) as env:
        result = execute_code("open('ran', 'w')", env=env, timeout=0.25, mode=mode)  # type: ignore[arg-type]
        said = "The time limit of 0.25 s was used up by starting the target; the script did not run."
        assert (result.status, result.exit_code, result.output, result.error) == ("timeout", None, said, said)
        assert result.tool_calls_made == 0
        SlowToStart.may_start.set()
    assert not (tmp_path / "ran").exists()


def test_an_interrupt_ends_the_wait_for_a_start(tmp_path: Path) -> None:
    SlowToStart.may_start = threading.Event()
    interrupt = threading.Event()
    interrupt.set()
    with SlowToStart(load_settings("local", cwd=str(tmp_path))) as env:
        result = execute_code("open('ran', 'w')", env=env, interrupt=interrupt)
        assert (result.status, result.exit_code) == ("interrupted", None)
        SlowToStart.may_start.set()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("backend", [PlainLocal, Elsewhere])
def test_a_scope_that_is_cancelled_while_a_script_is_got_ready_is_no_failure(
    tmp_path: Path, backend: type[PlainLocal], monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = CancelScope()

    def stub(*given: object) -> str:
        scope.cancel()
        return generate_stub(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(script_run, "generate_stub", stub)
    with backend(load_settings("local", cwd=str(tmp_path))) as env, scope.active():
        result = execute_code("open('ran', 'w')", env=env)
        assert (result.status, result.exit_code) == ("interrupted", None)
        with in_no_scope():
            assert not env.execute(f"ls {env.scratch_directory()} | grep script-").output
    assert not (tmp_path / "ran").exists()


def test_a_target_that_cannot_be_started_is_an_error_and_no_matter_of_time(tmp_path: Path) -> None:
    with (
        NeverUp(load_settings("local", cwd=str(tmp_path))) as env,
        pytest.raises(EnvironmentStartError, match="no such target"),
    ):
        execute_code("print(1)", env=env)


def test_a_limit_of_no_time_at_all_is_one_of_the_start(env: BaseEnvironment) -> None:
    result = execute_code("print(1)", env=env, timeout=1e-9)
    assert (result.status, result.exit_code) == ("timeout", None)
    assert (
        result.output == "The time limit of 0.000000001 s was used up by starting the target; the script did not run."
    )


def test_a_script_that_ran_has_timed_out(env: BaseEnvironment) -> None:
    result = execute_code("print('ran', flush=True)\nwhile True: pass", env=env, timeout=8)
    assert result.output == "ran\nScript timed out after 8s and was killed."
    assert (result.status, result.exit_code) == ("timeout", 124)


def test_what_is_done_is_named_once_time_is_over() -> None:
    before = Preparation(1e9, 0.0, Interruption(None))
    before.now("waiting")
    assert before.result_of(TerminalError("it said no")) is None
    late = Preparation(1e-9, 0.0, Interruption(None))
    with pytest.raises(OutOfTimeError):
        late.now("waiting")
    for error in (late.taken_by("waiting"), TerminalError("it was cut off")):
        result = late.result_of(error)
        assert result is not None and "used up by waiting" in result.output
    assert late.result_of(EnvironmentStartError("no such target")) is None


# What the start says.


@given(st.binary(max_size=50), st.binary(max_size=50), st.lists(st.integers(0, 200)))
def test_the_words_of_a_start_are_taken_out_however_they_are_cut(before: bytes, behind: bytes, cuts: list[int]) -> None:
    beginning = Beginning()
    word = beginning.word.encode()
    stream = before + b"\x1e" + word + b" 1\n" + before + b"\x1e" + word + b" +\n" + behind
    shown, last = b"", 0
    for cut in sorted(cut for cut in cuts if cut <= len(stream)):
        shown, last = shown + beginning.feed(stream[last:cut]), cut
    shown += beginning.feed(stream[last:]) + beginning.feed(b"", final=True)
    assert shown == before + before + behind
    assert (beginning.chosen, beginning.begun, beginning.none_found) == (1, True, False)


def test_a_script_cannot_speak_as_its_start(env: BaseEnvironment) -> None:
    code = """
import sys
words = open(f"/proc/self/cmdline", "rb").read().split(b"\\0")
sys.stderr.buffer.write(b"\\x1e" + words[4] + b" -\\n\\x1e" + words[4] + b" 7\\n")
sys.exit(5)
"""
    result = execute_code(code, env=env)
    assert (result.status, result.exit_code) == ("error", 5)
    assert " 7\n" in result.stderr

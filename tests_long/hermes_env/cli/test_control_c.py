"""Ctrl-C on a terminal: the message, the exit code, and no leftovers."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.command_line import SLEEP, OpenTerminal, Script
from targets.processes import all_gone, processes_with

from environments.conformance.check import wait_until

SAID = r"ended by Ctrl-C\r?\n"


@pytest.mark.parametrize(
    "words", [("exec", "--"), ("exec", "--timeout", "300", "--merge", "--")], ids=["plain", "merged"]
)
def test_a_command_that_ignores_signals_is_ended(open_terminal: OpenTerminal, nap: str, words: tuple[str, ...]) -> None:
    user = open_terminal(*words, f"trap '' INT TERM; echo begun; sleep {nap} & sleep {nap}")
    user.expect("begun")
    user.type("\x03")
    user.expect(SAID)
    assert user.wait_for_exit() == 130
    assert all_gone(nap)


def test_a_script_is_ended_and_no_message_for_models_is_shown(
    open_terminal: OpenTerminal, script: Script, nap: str
) -> None:
    for options in ((), ("--json",)):
        user = open_terminal("run", *options, script(SLEEP.format(nap)))
        assert wait_until(lambda: bool(processes_with(nap)), 60)
        user.type("\x03")
        user.expect("ended by Ctrl-C")
        assert user.wait_for_exit() == 130
        assert b"message" not in user.all
        assert all_gone(nap)


def test_a_copy_is_ended(open_terminal: OpenTerminal, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    user = open_terminal("cp", "--cwd", str(tmp_path), "-", ":new", TMPDIR=str(tmp_path / "tmp"))
    assert wait_until(lambda: bool(list(tmp_path.glob("tmp/hermes-cp-*"))), 60)
    user.type("\x03")
    user.expect(SAID)
    assert user.wait_for_exit() == 130
    assert not (tmp_path / "new").exists() and not list((tmp_path / "tmp").iterdir())


SLOW = """
import time
from pathlib import Path
from environments import BaseEnvironment

class Slow(BaseEnvironment):
    backend = "slow"

    @classmethod
    def list_targets(cls):
        while not Path("answer").exists():
            time.sleep(0.05)
        return []
"""
"""A backend that does not answer until a file exists."""
LOOKS = [("ls",), ("rm", "--all", "--yes"), ("rm", "--task", "t")]


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_a_look_at_a_slow_backend_is_shown_and_ended(
    open_terminal: OpenTerminal, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    user = open_terminal(*words, "-b", "slow:Slow", PYTHONPATH=f"{tmp_path}:{Path(__file__).parents[3]}")
    user.expect("querying slow:Slow")
    user.type("\x03")
    user.expect(SAID)
    assert user.wait_for_exit() == 130
    (tmp_path / "answer").touch()
    user = open_terminal(*words, "-b", "slow:Slow", PYTHONPATH=f"{tmp_path}:{Path(__file__).parents[3]}")
    assert user.wait_for_exit() == 0


def test_a_batch_is_ended(open_terminal: OpenTerminal, tmp_path: Path, nap: str) -> None:
    (tmp_path / "tasks.jsonl").write_text(f'{{"id": "a", "command": "sleep {nap}"}}\n')
    user = open_terminal("batch", "tasks.jsonl", "--out", "results.jsonl")
    assert wait_until(lambda: bool(processes_with(nap)), 60)
    user.type("\x03")
    user.expect("Ctrl-C: ending the running tasks; press Ctrl-C again to exit at once")
    assert user.wait_for_exit() == 130
    assert all_gone(nap)


@pytest.mark.parametrize(
    ("options", "begun"), [(("--http", "127.0.0.1:0"), r"http://127\.0\.0\.1:\d+/mcp"), ((), "Ctrl-C ends it")]
)
def test_a_server_is_ended(open_terminal: OpenTerminal, options: tuple[str, ...], begun: str) -> None:
    user = open_terminal("mcp", *options, HERMES_MCP_TOKEN="a token that is long enough")
    user.expect(begun)
    user.type("\x03")
    user.expect(SAID)
    assert user.wait_for_exit() == 130


def test_a_question_is_answered_by_it_with_the_end(open_terminal: OpenTerminal, configure) -> None:
    configure("approvals: {ask: [echo]}\n")
    user = open_terminal("exec", "--", "echo never")
    user.expect(r"Go on\? \[y/N\] ")
    user.type("\x03")
    user.expect(SAID)
    assert user.wait_for_exit() == 130


def test_a_shell_receives_control_c_itself(open_terminal: OpenTerminal) -> None:
    user = open_terminal("shell", "--", "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done")
    user.expect("ready")
    user.type("\x03")
    user.expect("caught")
    assert user.wait_for_exit() == 7
    assert b"ended by" not in user.all

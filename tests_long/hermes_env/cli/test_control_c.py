"""Ctrl-C on a terminal: the message, the exit code, and no leftovers."""

from __future__ import annotations

from pathlib import Path

import pytest
from targets.command_line import SLEEP, Opens, Script
from targets.processes import all_gone, having

from environments.conformance.check import wait_until

SAID = r"ended by Ctrl-C\r?\n"


@pytest.mark.parametrize(
    "words", [("exec", "--"), ("exec", "--timeout", "300", "--merge", "--")], ids=["plain", "merged"]
)
def test_a_command_that_ignores_signals_is_ended(opens: Opens, nap: str, words: tuple[str, ...]) -> None:
    person = opens(*words, f"trap '' INT TERM; echo begun; sleep {nap} & sleep {nap}")
    person.sees("begun")
    person.type("\x03")
    person.sees(SAID)
    assert person.sees_the_end() == 130
    assert all_gone(nap)


def test_a_script_is_ended_and_no_message_for_models_is_shown(opens: Opens, script: Script, nap: str) -> None:
    for options in ((), ("--json",)):
        person = opens("run", *options, script(SLEEP.format(nap)))
        assert wait_until(lambda: bool(having(nap)), 60)
        person.type("\x03")
        person.sees("ended by Ctrl-C")
        assert person.sees_the_end() == 130
        assert b"message" not in person.all
        assert all_gone(nap)


def test_a_copy_is_ended(opens: Opens, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    person = opens("cp", "--cwd", str(tmp_path), "-", ":new", TMPDIR=str(tmp_path / "tmp"))
    assert wait_until(lambda: bool(list(tmp_path.glob("tmp/hermes-cp-*"))), 60)
    person.type("\x03")
    person.sees(SAID)
    assert person.sees_the_end() == 130
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
def test_a_look_at_a_slow_backend_is_shown_and_ended(opens: Opens, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    person = opens(*words, "-b", "slow:Slow", PYTHONPATH=f"{tmp_path}:{Path(__file__).parents[3]}")
    person.sees("querying slow:Slow")
    person.type("\x03")
    person.sees(SAID)
    assert person.sees_the_end() == 130
    (tmp_path / "answer").touch()
    person = opens(*words, "-b", "slow:Slow", PYTHONPATH=f"{tmp_path}:{Path(__file__).parents[3]}")
    assert person.sees_the_end() == 0


def test_a_batch_is_ended(opens: Opens, tmp_path: Path, nap: str) -> None:
    (tmp_path / "tasks.jsonl").write_text(f'{{"id": "a", "command": "sleep {nap}"}}\n')
    person = opens("batch", "tasks.jsonl", "--out", "results.jsonl")
    assert wait_until(lambda: bool(having(nap)), 60)
    person.type("\x03")
    person.sees("Ctrl-C: ending the running tasks; press Ctrl-C again to exit at once")
    assert person.sees_the_end() == 130
    assert all_gone(nap)


@pytest.mark.parametrize(
    ("options", "begun"), [(("--http", "127.0.0.1:0"), r"http://127\.0\.0\.1:\d+/mcp"), ((), "Ctrl-C ends it")]
)
def test_a_server_is_ended(opens: Opens, options: tuple[str, ...], begun: str) -> None:
    person = opens("mcp", *options, HERMES_MCP_TOKEN="a token that is long enough")
    person.sees(begun)
    person.type("\x03")
    person.sees(SAID)
    assert person.sees_the_end() == 130


def test_a_question_is_answered_by_it_with_the_end(opens: Opens, configure) -> None:
    configure("approvals: {ask: [echo]}\n")
    person = opens("exec", "--", "echo never")
    person.sees(r"Go on\? \[y/N\] ")
    person.type("\x03")
    person.sees(SAID)
    assert person.sees_the_end() == 130


def test_a_shell_receives_it_itself(opens: Opens) -> None:
    person = opens("shell", "--", "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done")
    person.sees("ready")
    person.type("\x03")
    person.sees("caught")
    assert person.sees_the_end() == 7
    assert b"ended by" not in person.all

"""The texts of `hermes-env batch`, word for word: scripts search for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FIELDS = "it may have: id, command, script, timeout, files, settings"
WRONG_LINES = {
    '{"id": [1], "command": "true"}': 'the id of a task is [1]; give it text or a number, such as "id": "17"',
    '{"id": "a"}': "task 'a' has neither a command nor a script; give it one of them",
    '{"id": "a", "comand": "true"}': f"a task has no field 'comand' (did you mean 'command'?); {FIELDS}",
    '{"id": "a", "command": "true", "timout": 3}': f"a task has no field 'timout' (did you mean 'timeout'?); {FIELDS}",
    "no json": "it is not valid JSON: Expecting value: line 1 column 1 (char 0)",
    '{"id": "a", "command": "true", "script": "1"}': "task 'a' has both a command and a script; give it one of them",
    '{"command": "true"}': 'a task has no id; give it one, such as "id": "17"',
    '{"id": "a", "command": ["true"]}': "command is a list; it should be text",
}
WRONG_WORDS = {
    ("--work", "nosuch"): "--work nosuch: give module:function, such as rollouts:work for that in rollouts.py here",
    ("--work", "nosuch:f"): (
        "--work nosuch:f: nosuch cannot be imported: ModuleNotFoundError: No module named 'nosuch'"
    ),
    ("--retry", "sometimes"): (
        "--retry sometimes: there is no such status; give never, always, or some of "
        "success,error,timeout,interrupted,lost"
    ),
    ("--engine", "thread"): "there is no engine 'thread' (did you mean 'threads'?); there are: threads, ray",
    ("--budget", "0"): "--budget 0: it should be a number of seconds above 0",
    ("--limit", "docker"): "--limit docker: it should be a name, = and a number above 0",
}


@pytest.fixture
def batch(hermes_env, tmp_path: Path):
    """Run a batch of some lines, and return the exit code and standard error."""

    def run(text: str | None, *words: str) -> tuple[int, str]:
        tasks = tmp_path / "tasks.jsonl"
        if text is not None:
            tasks.write_text(text)
        done = hermes_env("batch", str(tasks), "--out", str(tmp_path / "out"), "-b", "local", *words)
        assert done.stdout == ""
        return done.returncode, done.stderr.replace(f"{tmp_path}/", "")

    return run


def test_a_wrong_line_is_one_line_with_its_number_the_field_and_a_guess(batch, tmp_path: Path) -> None:
    for text, said in WRONG_LINES.items():
        assert batch(f"\n{text}\n") == (2, f"hermes-env: tasks.jsonl, line 2: {said}\n")
    assert not (tmp_path / "out").exists()


def test_a_wrong_word_is_one_line(batch) -> None:
    for words, said in WRONG_WORDS.items():
        assert batch('{"id": "a", "command": "true"}\n', *words) == (2, f"hermes-env: {said}\n")


def test_a_missing_file_is_one_line(batch) -> None:
    said = "hermes-env: cannot read the tasks in tasks.jsonl: No such file or directory\n"
    assert batch(None) == (125, said)


def test_the_last_line_counts_results_and_says_what_was_not_run_again(batch, tmp_path: Path) -> None:
    tasks = (
        '{"id": 0, "command": "true"}\n{"id": "b", "command": "exit 3"}\n'
        '{"id": "c", "command": "sleep 30", "timeout": 0.5}\n'
    )
    code, said = batch(tasks)
    assert (code, re.sub(r"\d+\.\d", "1.0", said)) == (1, "hermes-env: 1 success, 1 error, 1 timeout in 1.0 s\n")
    code, said = batch(tasks)
    again = "hermes-env: nothing was run in 1.0 s; not run again: 1 success, 1 error, 1 timeout\n"
    assert (code, re.sub(r"\d+\.\d", "1.0", said)) == (1, again)
    code, said = batch('{"id": "d", "command": "true"}\n')
    others = "hermes-env: 1 success in 1.0 s; out holds 3 of other tasks, too\n"
    assert (code, re.sub(r"\d+\.\d", "1.0", said)) == (0, others)
    (tmp_path / "out").unlink()
    assert batch("") == (0, "hermes-env: there were no tasks\n")
    code, said = batch('{"id": 1, "command": "sleep 30"}\n{"id": 2, "command": "true"}\n', "-w", "1", "--budget", "0.5")
    over = (
        "hermes-env: 1 interrupted in 1.0 s; its time budget was over; not begun: 1 (run the same again to run them)\n"
    )
    assert (code, re.sub(r"\d+\.\d", "1.0", said)) == (124, over)

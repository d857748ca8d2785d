"""Each example prints its documented result."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from targets.web_server import running_site

ROOT = Path(__file__).parents[2]
ABSENT = "".join(["Cancel", "Nothing"])  # in two parts, so that a search does not find the word in this file


def run(*words: str, home: Path, **more: str) -> str:
    """Run a command in a checkout without settings, and return the output."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("TERMINAL_")}
    env |= {"HERMES_HOME": str(home), "TMPDIR": str(home), **more}
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_repository_report_counts_these_very_tests(tmp_path: Path) -> None:
    report = run("-m", "hermes_env", "run", "examples/repository_report.py", home=tmp_path)
    row = re.search(r"^tests +(\d+) +(\d+) +(\d+) +(\d+)$", report, re.MULTILINE)
    assert row
    assert int(row[1]) == len(list((ROOT / "tests").rglob("*.py")))
    assert "Largest files" in report


def test_the_parallel_search_finds_each_word(tmp_path: Path) -> None:
    found = run("examples/parallel_search.py", "CancelScope", ABSENT, home=tmp_path)
    assert re.search(r"^CancelScope: [1-9]\d* lines in [1-9]\d* files\n    environments/\S+:\d+: ", found, re.MULTILINE)
    assert f"{ABSENT}: 0 lines in 0 files" in found


def test_a_script_uses_the_programs_own_tools(tmp_path: Path) -> None:
    said = run("examples/own_tools.py", home=tmp_path)
    assert said.startswith("open: 385.50\nas expected: read_order: KeyError: 99\nsuccess, 6 calls")


def test_the_agent_loop_hands_calls_to_tools_until_the_model_has_done(tmp_path: Path) -> None:
    asked = {"command": "echo $((6 * 7))"}
    call = {"id": "call_1", "type": "function", "function": {"name": "terminal", "arguments": json.dumps(asked)}}
    answers = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "assistant", "content": "It is 42."},
    ]
    with running_site() as site:
        turns = iter(answers)
        site.on("/chat/completions", lambda request: request.answer_json({"choices": [{"message": next(turns)}]}))
        service = {"OPENAI_BASE_URL": site.url, "OPENAI_API_KEY": "none", "TERMINAL_CWD": str(tmp_path)}
        said = run("examples/agent_loop.py", "What", "is", "6", "times", "7?", home=tmp_path, **service)
    assert said == "It is 42.\n"
    first, second = (json.loads(request.body) for request in site.requests)
    assert first["messages"][-1] == {"role": "user", "content": "What is 6 times 7?"}
    assert "execute_code" in [tool["function"]["name"] for tool in first["tools"]]
    result = {"role": "tool", "tool_call_id": "call_1"}
    assert second["messages"][-2:] == [answers[0], result | {"content": second["messages"][-1]["content"]}]
    assert json.loads(second["messages"][-1]["content"])["output"] == "42\n"

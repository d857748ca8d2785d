from __future__ import annotations

import json
from pathlib import Path

from targets.command_line import SLEEP, CommandLine, Script
from targets.processes import all_gone

CALL = "from hermes_tools import terminal\nprint(terminal('echo hi')['output'])"


def test_a_script_shows_its_output_and_a_line_how_it_ended(hermes_env: CommandLine) -> None:
    done = hermes_env("run", "-", stdin="print(6 * 7)")
    assert (done.stdout, done.returncode) == ("42\n", 0)
    assert done.stderr.startswith("success in ")
    assert done.stderr.endswith("0 tool calls, exit code 0\n")


def test_a_script_finds_its_arguments_and_keeps_its_line_numbers(hermes_env: CommandLine, script: Script) -> None:
    code = "'''doc'''\nfrom __future__ import annotations\nimport sys\nprint(sys.argv[1:])\n1 / 0\n"
    arguments = ["--json", "it's", "--", "-x"]
    done = hermes_env("run", script(code), *arguments)
    assert done.stdout == f"{arguments}\n"
    assert "line 5" in done.stderr


def test_a_failed_script_shows_its_traceback_once_and_gives_its_exit_code(
    hermes_env: CommandLine, script: Script
) -> None:
    code = "import sys\nprint('before')\nsys.stderr.write('complaint\\n')\nsys.exit(3)"
    done = hermes_env("run", script(code))
    assert (done.stdout, done.returncode) == ("before\n", 3)
    assert done.stderr.count("complaint") == 1 and "before" not in done.stderr
    done = hermes_env("run", "--json", script(code))
    assert (json.loads(done.stdout)["status"], done.stderr, done.returncode) == ("error", "", 3)


def test_a_script_calls_tools_over_each_transport_and_no_more_than_it_may(
    hermes_env: CommandLine, script: Script
) -> None:
    for transport in ("auto", "file"):
        done = hermes_env("run", "--transport", transport, script(CALL))
        assert done.stdout.strip() == "hi"
        assert "1 tool call," in done.stderr


def test_a_limit_that_was_reached_is_named_in_the_last_line_and_in_json(
    hermes_env: CommandLine, script: Script
) -> None:
    code = "from hermes_tools import terminal\nfor n in range(5): print(terminal(f'echo {n}')['output'])"
    done = hermes_env("run", "--max-tool-calls", "2", script(code))
    assert (done.stdout, done.returncode) == ("0\n\n1\n\n", 1)
    assert "ToolError: terminal: the limit of 2 tool calls" in done.stderr
    last = done.stderr.splitlines()[-1]
    limit = "The limit of 2 tool calls (max_tool_calls) was reached: 1 tool call was refused."
    assert last.startswith("error in ") and last.endswith(f"2 tool calls, exit code 1. {limit}")
    result = json.loads(hermes_env("run", "--json", "--max-tool-calls", "2", script(code)).stdout)
    assert result["limit"] == limit and result["error"].endswith(limit)


def test_a_limit_is_named_as_well_where_the_script_goes_on(hermes_env: CommandLine, script: Script) -> None:
    code = "from hermes_tools import ToolError, terminal\ntry: terminal(':')\nexcept ToolError as e: print(e)"
    done = hermes_env("run", "--max-tool-calls", "0", script(code))
    assert done.returncode == 0 and done.stdout.startswith("terminal: the limit of 0 tool calls")
    assert done.stderr.startswith("success in ") and "was reached: 1 tool call was refused." in done.stderr
    result = json.loads(hermes_env("run", "--json", script("print(1)")).stdout)
    assert result["limit"] is None


def test_json_is_all_that_is_printed_and_shows_each_tool_call(hermes_env: CommandLine, script: Script) -> None:
    done = hermes_env("run", "--json", script("import hermes_tools\nhermes_tools.read_file('missing')\nprint('hello')"))
    result = json.loads(done.stdout)
    assert (result["status"], result["output"], result["tool_calls_made"], done.stderr) == ("success", "hello\n", 1, "")
    (call,) = result["tool_calls"]
    assert list(call) == ["name", "start", "seconds", "error"]
    assert call["name"] == "read_file" and "missing" in call["error"]


def test_a_time_out_ends_the_script_with_124_and_leaves_nothing(
    hermes_env: CommandLine, script: Script, nap: str
) -> None:
    done = hermes_env("run", "--timeout", "1", script(SLEEP.format(nap)))
    assert done.returncode == 124 and "timed out" in done.stderr
    assert all_gone(nap)


def test_strict_mode_runs_apart_from_the_sessions_directory(
    hermes_env: CommandLine, script: Script, tmp_path: Path
) -> None:
    code = "import os; print(os.getcwd())"
    assert hermes_env("run", "--mode", "project", script(code)).stdout.strip() == str(tmp_path)
    assert hermes_env("run", "--mode", "strict", script(code)).stdout.strip() != str(tmp_path)

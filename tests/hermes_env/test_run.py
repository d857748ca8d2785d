from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from targets.processes import all_gone


@pytest.fixture
def script(tmp_path: Path):
    def write(code: str) -> str:
        path = tmp_path / "script.py"
        path.write_text(code)
        return str(path)

    return write


def test_a_script_shows_its_output_and_a_line_how_it_ended(hermes_env, script) -> None:
    done = hermes_env("run", script("print('hello')"))
    assert (done.stdout, done.returncode) == ("hello\n", 0)
    assert done.stderr.startswith("success in ")
    assert done.stderr.endswith("0 tool calls, exit code 0\n")


def test_a_script_may_come_from_standard_input(hermes_env) -> None:
    assert hermes_env("run", "-", stdin="print(6 * 7)").stdout == "42\n"


def test_a_script_finds_its_arguments_and_keeps_its_line_numbers(hermes_env, script) -> None:
    code = "'''doc'''\nfrom __future__ import annotations\nimport sys\nprint(sys.argv[1:])\n1 / 0\n"
    arguments = ["--json", "it's", "--", "-x"]
    done = hermes_env("run", script(code), *arguments)
    assert done.stdout == f"{arguments}\n"
    assert "line 5" in done.stderr


def test_a_failed_script_shows_its_traceback_once_and_gives_its_exit_code(hermes_env, script) -> None:
    done = hermes_env("run", script("import sys\nprint('before')\nsys.stderr.write('complaint\\n')\nsys.exit(3)"))
    assert (done.stdout, done.returncode) == ("before\n", 3)
    assert done.stderr.count("complaint") == 1
    assert "before" not in done.stderr


def test_a_script_calls_tools(hermes_env, script) -> None:
    done = hermes_env("run", script("from hermes_tools import terminal\nprint(terminal('echo hi')['output'])"))
    assert done.stdout.strip() == "hi"
    assert "1 tool call," in done.stderr


def test_the_number_of_tool_calls_can_be_limited(hermes_env, script) -> None:
    code = "from hermes_tools import terminal\nfor _ in range(3): print(terminal('echo hi'))"
    done = hermes_env("run", "--max-tool-calls", "1", script(code))
    assert "limit" in done.stdout + done.stderr


def test_tool_calls_travel_by_files_too(hermes_env, script) -> None:
    code = "from hermes_tools import terminal\nprint(terminal('echo hi')['output'])"
    assert hermes_env("run", "--transport", "file", script(code)).stdout.strip() == "hi"


def test_json_is_all_that_is_printed(hermes_env, script) -> None:
    done = hermes_env("run", "--json", script("print('hello')"))
    result = json.loads(done.stdout)
    assert (result["status"], result["output"].strip(), result["tool_calls_made"]) == ("success", "hello", 0)
    assert done.stderr == ""


def test_json_shows_each_tool_call(hermes_env, script) -> None:
    done = hermes_env("run", "--json", script("import hermes_tools\nhermes_tools.read_file('missing')"))
    (call,) = json.loads(done.stdout)["tool_calls"]
    assert list(call) == ["name", "start", "seconds", "error"]
    assert call["name"] == "read_file"
    assert "missing" in call["error"]


def test_json_keeps_the_exit_code_of_a_failed_script(hermes_env, script) -> None:
    done = hermes_env("run", "--json", script("raise SystemExit(4)"))
    assert json.loads(done.stdout)["status"] == "error"
    assert done.returncode == 4


def test_a_time_out_ends_the_script_with_124_and_leaves_nothing(hermes_env, script, nap: str) -> None:
    code = f"import subprocess\nprint('begun', flush=True)\nsubprocess.run(['sleep', '{nap}'])"
    done = hermes_env("run", "--timeout", "8", script(code))  # Python starts in less, also under load
    assert (done.stdout, done.returncode) == ("begun\n", 124)
    assert "timed out" in done.stderr
    assert all_gone(nap)


def test_ctrl_c_ends_the_script_with_130_and_leaves_nothing(start_hermes_env, script, nap: str) -> None:
    code = f"import subprocess\nprint('begun', flush=True)\nsubprocess.run(['sleep', '{nap}'])"
    process = start_hermes_env("run", script(code))
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert all_gone(nap)


def test_strict_mode_runs_apart_from_the_sessions_directory(hermes_env, script, tmp_path: Path) -> None:
    code = "import os; print(os.getcwd())"
    assert hermes_env("run", "--mode", "project", script(code)).stdout.strip() == str(tmp_path)
    assert hermes_env("run", "--mode", "strict", script(code)).stdout.strip() != str(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [("absent.py", "cannot read the script absent.py: No such file or directory"), (".", "Is a directory")],
)
def test_a_script_that_cannot_be_read_is_one_line_and_exit_code_125(hermes_env, name: str, said: str) -> None:
    done = hermes_env("run", name)
    assert (done.stdout, done.returncode) == ("", 125)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_script_that_is_not_utf8_is_refused(hermes_env, tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"print('\xe9')")
    done = hermes_env("run", "latin.py")
    assert "latin.py: not UTF-8 text at byte 7" in done.stderr
    assert done.returncode == 125


@pytest.mark.parametrize(
    ("words", "said", "ended_with"),
    [
        (["absent.py"], "cannot read the script absent.py", 125),
        (["--backend", "dokcer", "-"], "unknown backend 'dokcer'", 125),
        (["--timeout", "-1", "-"], "--timeout -1", 125),
        (["--backend", "ssh", "-"], "needs a host", 125),
        (["--bogus", "-"], "bogus", 2),
    ],
)
def test_json_is_an_object_for_errors_of_ours_too(hermes_env, words: list[str], said: str, ended_with: int) -> None:
    done = hermes_env("run", "--json", *words, stdin="print(1)")
    result = json.loads(done.stdout)
    fine = json.loads(hermes_env("run", "--json", "-", stdin="print(1)").stdout)
    assert result.keys() == fine.keys()
    assert (result["status"], result["exit_code"], done.returncode) == ("error", None, ended_with)
    assert said in result["error"]


def test_json_behind_the_script_is_the_scripts_own(hermes_env, script) -> None:
    assert hermes_env("run", script("import sys; print(sys.argv[1:])"), "--json").stdout == "['--json']\n"

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from targets.processes import all_gone


def test_the_output_and_the_exit_code_are_the_commands_own(hermes_env) -> None:
    done = hermes_env("exec", "--", "echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == ("out\nerr\n", "", 7)


def test_a_single_word_is_shell_text(hermes_env) -> None:
    assert hermes_env("exec", "--", "echo a b | tr a-z A-Z").stdout == "A B\n"


def test_several_words_arrive_as_they_are(hermes_env) -> None:
    assert hermes_env("exec", "--", "printf", "%s|", "a b", "$HOME", "*", "it's").stdout == "a b|$HOME|*|it's|"


def test_options_after_the_command_are_the_commands_own(hermes_env) -> None:
    assert hermes_env("exec", "printf", "%s", "--timeout").stdout == "--timeout"


def test_standard_input_is_passed_on(hermes_env) -> None:
    assert hermes_env("exec", "--", "wc", "-c", stdin="x" * 200_000).stdout.strip() == "200000"


def test_the_directory_is_where_the_command_runs(hermes_env, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    assert hermes_env("exec", "--cwd", str(tmp_path / "below"), "pwd").stdout == f"{tmp_path / 'below'}\n"


def test_output_shows_while_the_command_runs(start_hermes_env) -> None:
    process = start_hermes_env("exec", "--", "echo early; sleep 3000")
    assert process.stdout.readline() == "early\n"
    assert process.poll() is None


def test_a_time_out_ends_the_command_with_124_and_leaves_nothing(hermes_env, nap: str) -> None:
    done = hermes_env("exec", "--timeout", "1", "--", f"echo begun; sleep {nap} & sleep {nap}")
    assert (done.stdout, done.returncode) == ("begun\n", 124)
    assert "ended after 1 s" in done.stderr
    assert all_gone(nap)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_the_command_with_130_and_leaves_nothing(start_hermes_env, nap: str, number: int) -> None:
    process = start_hermes_env("exec", "--", f"sleep {nap} & echo begun; sleep {nap}")
    assert process.stdout.readline() == "begun\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "")
    assert all_gone(nap)


def test_a_reader_that_leaves_ends_the_command(start_hermes_env, nap: str) -> None:
    process = start_hermes_env("exec", "--", f"sleep {nap} & while :; do echo y; sleep 0.01; done")
    assert process.stdout.readline() == "y\n"
    process.stdout.close()
    assert process.wait(timeout=30) == 141
    assert process.stderr.read() == ""
    assert all_gone(nap)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--backend", "dokcer"], "unknown backend 'dokcer' (did you mean 'docker'?)"),
        (["--set", "timout=3"], "argument timout: no such setting (did you mean 'timeout'?)"),
        (["--set", "timeout=soon"], "argument timeout: it should be a valid number"),
        (["--set", "timeout"], "--set timeout: it should be KEY=VALUE"),
        (["--set", "timeout=3", "--timeout", "4"], "--set timeout: it is given twice"),
        (["--set", "docker_volumes=[a"], "--set docker_volumes: it begins like JSON, and is not valid JSON"),
        (["--set", "backend=local"], "--set backend: use --backend instead"),
        (["--timeout", "0"], "--timeout 0: it should be greater than 0"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_code_125(hermes_env, words: list[str], said: str) -> None:
    done = hermes_env("exec", *words, "--", "echo never")
    assert (done.stdout, done.returncode) == ("", 125)
    assert done.stderr.startswith("hermes-env: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_any_setting_can_be_set(hermes_env) -> None:
    words = ["--set", "timeout=9", "--set", 'docker_volumes=["/a:/b"]', "--set", "docker_network=off"]
    assert hermes_env("exec", *words, "echo", "fine").stdout == "fine\n"


def test_a_command_is_required(hermes_env) -> None:
    done = hermes_env("exec")
    assert done.returncode == 2
    assert "CMD" in done.stderr


def test_the_version_is_printed(hermes_env) -> None:
    assert hermes_env("--version").stdout.startswith("hermes-env 0.")


def test_help_costs_no_import_of_a_backend_or_of_pydantic_settings() -> None:
    heavy = "{'environments.local', 'code_execution.execute', 'pydantic_settings', 'yaml', 'rich.markdown'}"
    probe = f"import sys, hermes_env.cli; print({heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

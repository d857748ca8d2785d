from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from targets.command_line import CommandLine, in_this_process
from targets.processes import all_gone

BYTES = bytes(range(256)) + "ä€😀".encode() + b"\xe2\x82\r\n\0end"


def test_the_output_and_the_exit_code_are_the_commands_own(hermes_env: CommandLine) -> None:
    done = hermes_env("exec", "--", "echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)


def test_standard_error_is_joined_where_that_is_asked_for_or_both_go_to_one_place(
    hermes_env: CommandLine, variables: dict[str, str], tmp_path: Path
) -> None:
    words = ("exec", "--", "for n in 1 2 3; do echo out; echo err >&2; done")
    done = hermes_env("exec", "--merge", *words[1:])
    assert (done.stdout, done.stderr) == ("out\nerr\n" * 3, "")
    with (tmp_path / "both").open("w+b") as both:
        assert in_this_process(words, variables, tmp_path, 0, both, both) == 0
    assert (tmp_path / "both").read_text() == "out\nerr\n" * 3


def test_json_has_standard_error_apart_unless_it_is_joined(hermes_env: CommandLine) -> None:
    command = ("--", "echo out; echo err >&2")
    apart = json.loads(hermes_env("exec", "--json", *command).stdout)
    assert (apart["output"], apart["stderr"]) == ("out\n", "err\n")
    joined = json.loads(hermes_env("exec", "--json", "--merge", *command).stdout)
    assert (joined["output"], joined["stderr"]) == ("out\nerr\n", None)


def test_one_word_is_shell_text_and_several_arrive_as_they_are(hermes_env: CommandLine) -> None:
    assert hermes_env("exec", "--", "echo a b | tr a-z A-Z").stdout == "A B\n"
    assert hermes_env("exec", "--", "printf", "%s|", "a b", "$HOME", "*", "it's").stdout == "a b|$HOME|*|it's|"
    assert hermes_env("exec", "printf", "%s", "--timeout").stdout == "--timeout"


def test_the_directory_and_any_setting_can_be_given(hermes_env: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    words = ["--set", "timeout=9", "--set", 'docker_volumes=["/a:/b"]', "--set", "docker_network=off"]
    assert hermes_env("exec", *words, "--cwd", str(tmp_path / "below"), "pwd").stdout == f"{tmp_path / 'below'}\n"


def test_every_byte_passes_from_file_to_file(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(BYTES * 5000)
    with (
        (tmp_path / "in").open("rb") as given,
        (tmp_path / "out").open("wb") as out,
        (tmp_path / "err").open("wb") as err,
    ):
        assert in_this_process(("exec", "--", "cat"), variables, tmp_path, given, out, err) == 0
    assert (tmp_path / "out").read_bytes() == BYTES * 5000


def test_without_standard_input_the_command_sees_its_end_and_a_loop_keeps_it(
    variables: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("for the loop\n")
    with (tmp_path / "in").open("rb") as given, (tmp_path / "out").open("w+b") as out:
        assert in_this_process(("exec", "-n", "--", "cat; echo done"), variables, tmp_path, given, out, out) == 0
        assert os.lseek(given.fileno(), 0, os.SEEK_CUR) == 0
    assert (tmp_path / "out").read_text() == "done\n"


def test_a_time_out_ends_the_command_with_124_and_leaves_nothing(hermes_env: CommandLine, nap: str) -> None:
    done = hermes_env("exec", "--timeout", "1", "--", f"sleep {nap} & sleep {nap}")
    assert (done.stdout, done.returncode) == ("", 124)
    assert "ended after 1 s" in done.stderr
    assert all_gone(nap)


def test_a_reader_that_is_stuck_does_not_delay_a_time_out(variables: dict[str, str], tmp_path: Path, nap: str) -> None:
    unread, out = os.pipe()
    with os.fdopen(unread), os.fdopen(out, "wb") as stuck, Path("/dev/null").open("r+b") as nothing:
        words = ("exec", "--timeout", "1", "--", f"sleep {nap} & yes")
        assert in_this_process(words, variables, tmp_path, nothing, stuck, nothing) == 124
    assert all_gone(nap)


def test_an_output_that_cannot_be_written_is_an_error_of_ours(variables: dict[str, str], tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full, (tmp_path / "err").open("wb") as err:
        assert in_this_process(("exec", "--", "echo x"), variables, tmp_path, 0, full, err) == 125
    said = (tmp_path / "err").read_text()
    assert said == "hermes-env: cannot write to standard output: No space left on device\n"


WRONG = [
    (["--backend", "dokcer"], "unknown backend 'dokcer' (did you mean 'docker'?)"),
    (["--set", "timout=3"], "--set timout: no such setting of backend 'local' (did you mean 'timeout'?)"),
    (["--set", "timeout=soon"], "--set timeout: it should be a number"),
    (["--set", "timeout"], "--set timeout: it should be KEY=VALUE"),
    (["--set", "timeout=3", "--timeout", "4"], "--set timeout: it is given twice"),
    (["--set", "docker_volumes=[a"], "--set docker_volumes: it begins like JSON, and is not valid JSON"),
    (["--set", "backend=local"], "--set backend: use --backend instead"),
    (["--timeout", "0"], "--timeout 0: it should be a number of seconds above 0; inf sets no limit"),
]


def test_a_wrong_setting_is_one_line_and_exit_code_2(hermes_env: CommandLine) -> None:
    for words, said in WRONG:
        done = hermes_env("exec", *words, "--", "echo never")
        assert (done.stdout, done.returncode, done.stderr.count("\n")) == ("", 2, 1), words
        assert done.stderr.startswith("hermes-env: ") and said in done.stderr, words


def test_a_command_is_required_and_the_version_is_printed(hermes_env: CommandLine) -> None:
    done = hermes_env("exec")
    assert done.returncode == 2 and "CMD" in done.stderr
    assert hermes_env("--version").stdout.startswith("hermes-env 0.")


def test_help_costs_no_import_of_a_backend_or_of_pydantic_settings() -> None:
    heavy = "{'environments.local', 'code_execution.execute', 'pydantic_settings', 'yaml', 'rich.markdown', 'anyio'}"
    probe = f"import sys, hermes_env.cli; print({heavy} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


RESULT_KEYS = [
    "status",
    "output",
    "stderr",
    "exit_code",
    "timed_out",
    "interrupted",
    "duration_seconds",
    "omitted_bytes",
    "error",
]
ENDINGS = [
    (["--", "echo hi"], ("success", 0, 0)),
    (["--", "exit 3"], ("error", 3, 3)),
    (["--timeout", "0.5", "--", "sleep 3000"], ("timeout", 124, 124)),
    (["--backend", "dokcer", "--", "true"], ("error", None, 2)),
    (["--set", "timout=3", "--", "true"], ("error", None, 2)),
    (["--timeout", "0", "--", "true"], ("error", None, 2)),
    (["--tiemout", "3", "--", "true"], ("error", None, 2)),
    (["--", "rm -rf ."], ("error", None, 126)),
]


def test_json_is_always_one_object(hermes_env: CommandLine, configure) -> None:
    configure("approvals: {destructive_commands: ask}\n")
    for words, expected in ENDINGS:
        done = hermes_env("exec", "--json", *words)
        result = json.loads(done.stdout)
        assert sorted(result) == sorted(RESULT_KEYS)
        assert (result["status"], result["exit_code"], done.returncode) == expected, words
        assert (result["error"] is None) == (expected[1] in (0, 3)), words


def test_json_holds_what_is_no_text_with_replacement(hermes_env: CommandLine) -> None:
    assert json.loads(hermes_env("exec", "--json", "--", r"printf 'a\377b'").stdout)["output"] == "a\ufffdb"

"""`--record FILE`: the record of the command line's operations."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from targets.command_line import CommandLine, OpenTerminal, Start
from targets.run_record import RunRecord

from environments.conformance.check import wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def test_exec_is_recorded_byte_for_byte_while_it_is_streamed(hermes_env: CommandLine, path: Path) -> None:
    done = hermes_env("exec", "--record", str(path), "--", "cat; echo err >&2; exit 4", stdin="input\n")
    assert (done.returncode, done.stdout) == (4, "input\n")
    seen = RunRecord(path)
    command = seen.one("command")
    assert seen.of("run")[0]["program"] == "hermes-env exec"
    assert (command["status"], command["exit_code"]) == ("error", 4)
    assert (command["output"], command["stderr"]) == ("input\n", "err\n")
    assert command["command"] == "cat; echo err >&2; exit 4" and command["timeout"] == 180.0
    assert seen.one("start")["parent"] == command["id"] and command["seconds"] > command["waited"] > 0


def test_exec_as_json_is_recorded_too_and_a_time_out_says_so(hermes_env: CommandLine, path: Path) -> None:
    done = hermes_env("exec", "--record", str(path), "--json", "--timeout", "0.5", "--", "sleep 1000")
    assert done.returncode == 124
    command = RunRecord(path).one("command")
    assert (command["status"], command["timeout"]) == ("timeout", 0.5)


def test_a_record_can_be_read_while_it_grows_and_an_interrupt_is_an_end(start_hermes_env: Start, path: Path) -> None:
    running = start_hermes_env("exec", "--record", str(path), "--", "echo begun; sleep 1000")
    assert running.stdout and running.stdout.readline() == b"begun\n"
    assert wait_until(lambda: path.exists() and bool(RunRecord(path).kind("command")), 60)
    assert not RunRecord(path).one("command").end
    os.kill(running.pid, signal.SIGINT)
    assert running.wait(60) == 130 and RunRecord(path).one("command")["status"] == "interrupted"


def test_run_is_recorded_with_the_calls_of_its_script(hermes_env: CommandLine, path: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\nfrom hermes_tools import terminal\nprint(terminal('echo deep')['output'], sys.argv)")
    assert hermes_env("run", "--record", str(path), str(script), "word").returncode == 0
    assert hermes_env("run", "--record", str(path), str(script)).returncode == 0
    seen = RunRecord(path)
    assert seen.ways_down().count(["script", "tool_call", "command"]) == 2
    assert seen.kind("script")[0]["arguments"] == ["word"] and "deep" in seen.last("script")["output"]


def test_a_record_that_cannot_be_written_is_an_error_before_anything_runs(
    hermes_env: CommandLine, path: Path, tmp_path: Path
) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    done = hermes_env("exec", "--record", str(path), "--", f"touch {tmp_path}/ran")
    assert done.returncode == 2 and "it is a link; give the path of another file" in " ".join(done.stderr.split())
    assert not (tmp_path / "ran").exists()


def test_shell_is_recorded_as_its_terminal_showed_it_without_what_is_typed_unseen(
    open_terminal: OpenTerminal, path: Path
) -> None:
    user = open_terminal("shell", "--record", str(path))
    user.expect(r"[$#] ")
    user.type("read -sp 'who? ' word; echo ${#word}\r")
    user.expect(r"\rwho\? ")
    user.type("unseen\r")
    user.expect("6\r\n")
    user.type("exit 3\r")
    assert user.program.wait(60) == 3
    shell = RunRecord(path).one("process")
    assert (shell["status"], shell["exit_code"], shell["pty"]) == ("error", 3, True)
    assert "who? 6\r\n" in shell["output"] and "unseen" not in RunRecord(path).text

"""Starts of a target from the command line: what is shown of them, and what ends them."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.engines import PYTHON_IMAGE, require_docker
from targets.silent_server import Silent, silent_server

from environments.progress import Progress
from hermes_env.progress import described

RUNS = [("exec", "true"), ("run", "script.py")]
each_command = pytest.mark.parametrize("command", RUNS, ids=lambda words: words[0])


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('ran')")


@pytest.fixture
def silent() -> Iterator[Silent]:
    with silent_server() as server:
        yield server


def away(server: Silent) -> list[str]:
    """The options for a host that never answers."""
    return ["-b", "ssh", "--set", "host=127.0.0.1", "--set", f"port={server.port}", "--set", "user=nobody"]


@each_command
def test_control_c_ends_a_start_and_nothing_runs(start_hermes_env, silent: Silent, command: tuple[str, ...]):
    process = start_hermes_env(command[0], *away(silent), *command[1:])
    assert silent.reached.wait(60)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and output == "" and "Traceback" not in errors


@each_command
def test_the_limit_bounds_a_start_too(hermes_env, silent: Silent, command: tuple[str, ...]):
    done = hermes_env(command[0], *away(silent), "--timeout", "1.5", *command[1:])
    assert done.returncode == 124 and done.stdout == ""
    assert "1.5 s" in done.stderr and "Traceback" not in done.stderr


@each_command
def test_json_is_an_object_also_then(hermes_env, silent: Silent, command: tuple[str, ...]):
    done = hermes_env(command[0], *away(silent), "--json", "-v", "--timeout", "1", *command[1:])
    assert json.loads(done.stdout)["status"] == "timeout"
    assert "connecting to" in done.stderr


def test_a_start_that_takes_long_is_told_of_by_a_line(hermes_env, silent: Silent):
    done = hermes_env("exec", *away(silent), "--timeout", "3", "true")
    first, *_ = done.stderr.splitlines()
    assert first.startswith("hermes-env: connecting to") and str(silent.port) in first


def test_a_start_that_is_quick_is_not_told_of_but_on_request(hermes_env):
    require_docker().close()
    options = ["-b", "docker", "--set", f"image={PYTHON_IMAGE}", "-n"]
    quiet = hermes_env("exec", *options, "echo", "ran")
    assert (quiet.stdout, quiet.returncode) == ("ran\n", 0), quiet.stderr
    done = hermes_env("exec", *options, "-v", "echo", "ran")
    lines = done.stderr.splitlines()
    assert (
        done.stdout == "ran\n" and lines[0] == "hermes-env: starting" and lines[-1].startswith("hermes-env: started in")
    )


def test_a_terminal_gets_a_line_that_is_gone_again(
    variables: dict[str, str], tmp_path: Path, silent: Silent, wait_for_words: Callable[[int, bytes], bytes]
):
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "hermes_env", "exec", *away(silent), "-n", "true"]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs, env=variables, cwd=tmp_path
    ) as process:
        os.close(theirs)
        wait_for_words(ours, b"connecting to")
        process.send_signal(signal.SIGINT)
        rest = wait_for_words(ours, b"stopped")
        assert process.wait(60) == 130
    assert b"\x1b[2K" in rest, "the line is cleared before the error is shown"
    os.close(ours)


@pytest.fixture
def wait_for_words() -> Callable[[int, bytes], bytes]:
    def wait(terminal: int, words: bytes) -> bytes:
        seen = b""
        while words not in seen:
            seen += os.read(terminal, 4096)
        return seen

    return wait


def test_what_a_registry_says_is_no_control_of_a_terminal():
    assert "\x1b" not in described(Progress("docker", "pulling \x1b]0;title\x07image", None, None))
    assert described(Progress("docker", "pulling image", 5_400_000, 30_000_000)) == "pulling image: 5 of 30 MB"
    assert described(Progress("docker", "pulling image", 5_400_000)) == "pulling image: 5 MB"

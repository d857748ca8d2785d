"""Starts of a target from the command line: progress, time-outs and signals."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.command_line import CommandLine, Start, in_this_process, terminal_shown
from targets.silent_server import Silent, silent_server

from environments.progress import Progress
from hermes_env import progress
from hermes_env.progress import described

COMMANDS = [("exec", "true"), ("run", "script.py")]


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('ran')")


@pytest.fixture
def silent() -> Iterator[Silent]:
    with silent_server() as server:
        yield server


def silent_host_options(server: Silent) -> list[str]:
    """Options of a host that never answers."""
    return ["-b", "ssh", "--set", "host=127.0.0.1", "--set", f"port={server.port}", "--set", "user=nobody"]


def test_control_c_ends_a_start_and_nothing_runs(start_hermes_env: Start, silent: Silent) -> None:
    process = start_hermes_env("run", *silent_host_options(silent), "script.py")
    assert silent.reached.wait(60)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and output == b"" and b"Traceback" not in errors


def test_the_limit_bounds_a_start_too(hermes_env: CommandLine, silent: Silent) -> None:
    for command, *words in COMMANDS:
        done = hermes_env(command, *silent_host_options(silent), "--timeout", "0.5", *words)
        assert done.returncode == 124 and done.stdout == ""
        assert "0.5 s" in done.stderr and "connecting to" not in done.stderr
        done = hermes_env(command, *silent_host_options(silent), "--json", "--timeout", "0.5", *words)
        assert json.loads(done.stdout)["status"] == "timeout"
    words = (*silent_host_options(silent), "--timeout", "0.5", "true")
    for verbose in (hermes_env("-v", "exec", *words), hermes_env("exec", "--verbose", *words)):
        assert "hermes-env: connecting to" in verbose.stderr


def test_a_long_start_reports_progress(
    hermes_env: CommandLine, silent: Silent, variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setattr(progress, "TERMINAL_PATIENCE", 0.05)
    told = hermes_env("exec", *silent_host_options(silent), "--timeout", "1", "true").stderr.splitlines()
    first = next(line for line in told if line != "hermes-env: starting")  # a loaded machine has time to print this
    assert first.startswith("hermes-env: connecting to") and str(silent.port) in first
    with terminal_shown() as (terminal, shown), Path("/dev/null").open("r+b") as nothing:
        words = ("exec", *silent_host_options(silent), "-n", "--timeout", "1", "true")
        assert in_this_process(words, variables, tmp_path, nothing, nothing, terminal) == 124
        _, line, after = shown().partition("connecting to")
    assert line and "\x1b[2K" in after, "the line is cleared before the error is shown"


def test_terminal_controls_in_a_registrys_message_are_removed() -> None:
    assert "\x1b" not in described(Progress("docker", "pulling \x1b]0;title\x07image", None, None))
    assert described(Progress("docker", "pulling image", 5_400_000, 30_000_000)) == "pulling image: 5 of 30 MB"
    assert described(Progress("docker", "pulling image", 5_400_000)) == "pulling image: 5 MB"

"""Rare cases on the streams of the command line. Each needs a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from targets.command_line import WORDS, Start
from targets.silent_server import silent_server

MB = 1024 * 1024
MOST_MEMORY = 150 * MB
SAY_PEAK = r"print(re.search(r'VmHWM:\s*(\d+)', open('/proc/self/status').read())[1], file=sys.stderr)"


def test_large_streams_take_little_memory(variables: dict[str, str], tmp_path: Path) -> None:
    size = 400 * MB
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(size)
    code = f"import atexit, re, sys; atexit.register(lambda: {SAY_PEAK}); from hermes_env.cli import main; main()"
    command = [sys.executable, "-c", code, "exec", "--", "cat"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with (
        (tmp_path / "zeros").open("rb") as zeros,
        subprocess.Popen(command, stdin=zeros, env=variables, cwd=tmp_path, **pipes) as process,  # type: ignore[call-overload]
    ):
        got = 0
        while piece := os.read(process.stdout.fileno(), MB):
            got += len(piece)
        assert (got, process.wait(60)) == (size, 0)
        assert int(process.stderr.read()) * 1024 < MOST_MEMORY


def test_output_that_cannot_be_written_is_an_error(variables: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [*WORDS, "completion", "bash"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=variables, check=False)
    assert done.returncode == 125
    assert done.stderr == "hermes-env: cannot write to standard output: No space left on device\n"


def test_control_c_ends_the_wait_for_what_does_not_answer(start_hermes_env: Start, variables: dict[str, str]) -> None:
    with silent_server() as server:
        variables |= {"TERMINAL_SSH_HOST": "127.0.0.1", "TERMINAL_SSH_PORT": str(server.port)}
        process = start_hermes_env("ls")
        assert server.reached.wait(60)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, b"")
    assert b"Traceback" not in errors

"""`hermes-env exec` between two pipes takes little memory, however much passes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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

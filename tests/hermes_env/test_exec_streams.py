"""`hermes-env exec` between two pipes, as a part of a shell's pipeline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from targets.processes import all_gone

Start = Callable[..., "subprocess.Popen[bytes]"]

BYTES = bytes(range(256)) + "ä€😀".encode() + b"\xe2\x82\r\n\0end"
MB = 1024 * 1024
MOST_MEMORY = 150 * MB
SAY_PEAK = r"print(re.search(r'VmHWM:\s*(\d+)', open('/proc/self/status').read())[1], file=sys.stderr)"


@pytest.fixture
def start(variables: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """The real command, with pipes."""
    with ExitStack() as started:

        def start(*words: str, program: Sequence[str] = ("-m", "hermes_env"), **options: object):
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            command = [sys.executable, *program, "exec", *words]
            process = subprocess.Popen(command, env=variables, cwd=tmp_path, **{**pipes, **options})
            started.enter_context(process)
            started.callback(process.kill)
            return process

        yield start


def test_every_byte_passes_both_ways(start: Start) -> None:
    assert start("--", "cat").communicate(BYTES, timeout=60) == (BYTES, b"")


def test_every_byte_reaches_a_file(start: Start, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        start("--", "cat", stdout=file).communicate(BYTES * 5000, timeout=60)
    assert (tmp_path / "out").read_bytes() == BYTES * 5000


def test_input_is_passed_on_as_it_comes(start: Start) -> None:
    process = start("--", "while read -r line; do echo got $line; done")
    for word in (b"one", b"two"):
        process.stdin.write(word + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"got " + word + b"\n"
    process.stdin.close()
    assert process.wait(60) == 0


@pytest.mark.parametrize("command", ["true", "head -c 3 >/dev/null; exit 0", "exec <&-; echo >/dev/null"])
def test_an_input_that_stays_open_is_not_waited_for(start: Start, command: str) -> None:
    process = start("--", command)
    process.stdin.write(b"abc")
    process.stdin.flush()
    assert process.wait(60) == 0


def test_an_input_without_end_ends_with_the_command(start: Start) -> None:
    with Path("/dev/zero").open("rb") as endless:
        process = start("--", "head -c 3", stdin=endless)
        assert process.communicate(timeout=60)[0] == b"\0\0\0"
    assert process.returncode == 0


def test_an_input_that_nobody_reads_does_not_delay_a_time_out(start: Start, nap: str) -> None:
    with Path("/dev/zero").open("rb") as endless:
        process = start("--timeout", "3", "--", f"sleep {nap}", stdin=endless)
        assert process.wait(60) == 124
    assert all_gone(nap)


def test_a_reader_that_is_stuck_does_not_delay_a_time_out(start: Start, nap: str) -> None:
    process = start("--timeout", "3", "--", f"sleep {nap} & yes")
    assert process.wait(60) == 124  # its output is not read
    assert all_gone(nap)


def test_without_standard_input_the_command_sees_its_end(start: Start) -> None:
    process = start("-n", "--", "cat; echo done")
    assert process.stdout.read() == b"done\n"
    assert process.wait(60) == 0


def test_with_n_a_loop_keeps_its_input(variables: dict[str, str], tmp_path: Path) -> None:
    loop = f'while read -r word; do "{sys.executable}" -m hermes_env exec -n -- "echo got $word"; done'
    done = subprocess.run(
        ["bash", "-c", loop], input=b"a\nb\nc\n", capture_output=True, env=variables, cwd=tmp_path, check=False
    )
    assert done.stdout == b"got a\ngot b\ngot c\n"


def test_large_streams_take_little_memory(start: Start, tmp_path: Path) -> None:
    size = 400 * MB
    with (tmp_path / "zeros").open("wb") as file:
        file.truncate(size)
    code = f"import atexit, re, sys; atexit.register(lambda: {SAY_PEAK}); from hermes_env.cli import main; main()"
    with (tmp_path / "zeros").open("rb") as zeros:
        process = start("--", "cat", stdin=zeros, program=["-c", code])
        got = 0
        while piece := os.read(process.stdout.fileno(), MB):
            got += len(piece)
    assert (got, process.wait(60)) == (size, 0)
    assert int(process.stderr.read()) * 1024 < MOST_MEMORY


def test_an_output_that_cannot_be_written_is_an_error_of_ours(start: Start) -> None:
    with Path("/dev/full").open("wb") as full:
        process = start("--", "echo x", stdout=full)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 125
    assert said == b"hermes-env: cannot write to standard output: No space left on device\n"


def test_a_reader_that_leaves_ends_an_endless_command(start: Start) -> None:
    process = start("--", "yes")
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""


RESULT_KEYS = {
    "status",
    "output",
    "exit_code",
    "timed_out",
    "interrupted",
    "duration_seconds",
    "omitted_bytes",
    "error",
}


@pytest.mark.parametrize(
    ("words", "status", "exit_code", "ended_with"),
    [
        (["--", "echo hi"], "success", 0, 0),
        (["--", "exit 3"], "error", 3, 3),
        (["--timeout", "1", "--", "sleep 3000"], "timeout", 124, 124),
        (["--backend", "dokcer", "--", "true"], "error", None, 125),
        (["--set", "timout=3", "--", "true"], "error", None, 125),
        (["--timeout", "0", "--", "true"], "error", None, 125),
        (["--tiemout", "3", "--", "true"], "error", None, 2),
        (["--", "rm -rf ."], "error", None, 126),
    ],
)
def test_json_is_always_one_object(
    start: Start, words: list[str], status: str, exit_code: int | None, ended_with: int, variables: dict[str, str]
) -> None:
    home = Path(variables["HERMES_HOME"])
    home.mkdir()
    (home / "config.yaml").write_text("approvals: {destructive_commands: ask}\n")
    process = start("--json", *words)
    result = json.loads(process.communicate(b"", timeout=60)[0])
    assert result.keys() == RESULT_KEYS
    assert (result["status"], result["exit_code"], process.returncode) == (status, exit_code, ended_with)
    assert (result["error"] is None) == (status == "success" or exit_code == 3)


def test_json_holds_what_is_no_text_with_replacement(start: Start) -> None:
    result = json.loads(start("--json", "--", r"printf 'a\377b'").communicate(b"", timeout=60)[0])
    assert result["output"] == "a\ufffdb"

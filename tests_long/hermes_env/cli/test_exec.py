from __future__ import annotations

import signal
import subprocess

from targets.command_line import Start
from targets.processes import all_gone

BYTES = bytes(range(256)) + "ä€😀".encode() + b"\xe2\x82\r\n\0end"


def test_input_is_passed_on_and_output_shows_as_it_comes(start_hermes_env: Start) -> None:
    process = start_hermes_env("exec", "--", "while read -r line; do echo got $line; done", stdin=subprocess.PIPE)
    assert process.stdin and process.stdout
    for word in (b"one\n", BYTES[128:138] + b"\n"):
        process.stdin.write(word)
        process.stdin.flush()
        assert process.stdout.readline() == b"got " + word
    process.stdin.close()
    assert process.wait(60) == 0


def test_control_c_interrupts_the_command_with_130_and_leaves_nothing(start_hermes_env: Start, nap: str) -> None:
    process = start_hermes_env("exec", "--", f"sleep {nap} & echo begun; sleep {nap}")
    assert process.stdout and process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"hermes-env: ended by Ctrl-C\n")
    assert all_gone(nap)


def test_a_reader_that_leaves_ends_the_command(start_hermes_env: Start, nap: str) -> None:
    process = start_hermes_env("exec", "--", f"sleep {nap} & yes")
    assert process.stdout and process.stderr
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    assert all_gone(nap)

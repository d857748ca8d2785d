"""Checks of the command line's streams and terminals, for any backend."""

from __future__ import annotations

import os
import signal
import tempfile
import termios
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from environments import BaseEnvironment, CancelScope
from environments.conformance.check import wait_until
from environments.output import Channel
from hermes_env.cli.copying import download_stream, upload_stream
from hermes_env.cli.exec import Ending, run_streamed
from hermes_env.cli.shell import InteractiveSession
from hermes_env.cli.streams import LiveOutput
from targets.processes import all_gone, processes_with

BYTES = bytes(range(256)) * 4000


class MemoryOutput:
    """An output kept in memory."""

    separate = False

    def __init__(self) -> None:
        self.data = bytearray()
        self.came = threading.Condition()

    def add(self, channel: Channel, data: bytes) -> None:
        with self.came:
            self.data += data
            self.came.notify_all()

    def freeze(self) -> None:
        pass

    def shows(self, text: bytes) -> bool:
        """Wait for a text in the data."""
        with self.came:
            return self.came.wait_for(lambda: text in self.data, 60)


def streamed(environment: BaseEnvironment, command: str, source: int, timeout: float = 60) -> tuple[bytes, Ending]:
    """Run a command with a file descriptor as input, and return the output and ending."""
    sink = MemoryOutput()
    ending = run_streamed(environment, command, sink, CancelScope(), timeout=timeout, source=source)
    return bytes(sink.data), ending


def check_every_byte_passes_both_ways(environment: BaseEnvironment) -> None:
    """Pass bytes through a command, and through a file."""
    path = f"{environment.internal.scratch_directory()}/it's new"
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile("w+") as out:
        source.write(BYTES)
        source.seek(0)
        got, ending = streamed(environment, "cat; exit 5", source.fileno())
        assert (got == BYTES, ending.exit_code) == (True, 5)
        source.seek(0)
        upload_stream(environment, source.fileno(), path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdout", out)
            download_stream(environment, path, LiveOutput(lambda: None))
        out.seek(0)
        assert out.buffer.read() == BYTES


def check_a_time_out_ends_a_command_that_does_not_read(environment: BaseEnvironment, nap: str, timeout: float) -> None:
    """Run a command with endless input, which blocks on a full pipe."""
    with open("/dev/zero", "rb") as endless:
        _, ending = streamed(environment, f"sleep {nap}", endless.fileno(), timeout)
    assert (ending.exit_code, ending.timed_out) == (124, True)
    assert all_gone(nap)


def check_a_terminal_passes_its_size_and_control_c(environment: BaseEnvironment, nap: str) -> None:
    """Run a command on a terminal, change the window's size, and press Ctrl-C."""
    window = MemoryOutput()
    screen, terminal = os.openpty()
    termios.tcsetwinsize(screen, (33, 111))
    scope = CancelScope()
    session = InteractiveSession(terminal, scope)
    resized = "until stty size | grep '20 66'; do sleep 0.1; done"
    command = f"trap 'exit 7' INT; stty size; read -r word; {resized}; sleep {nap}"
    try:
        with ThreadPoolExecutor() as pool, session.window_signals():
            code = pool.submit(session.run, environment, command, window)
            try:
                assert window.shows(b"33 111")
                termios.tcsetwinsize(screen, (20, 66))
                signal.raise_signal(signal.SIGWINCH)
                os.write(screen, b"go\n")
                assert window.shows(b"20 66")
                assert wait_until(
                    lambda: processes_with(nap), 60
                )  # a shell runs a trap only after its foreground child
                os.write(screen, b"\x03")
                assert code.result(60) in (7, 130), "Singularity's own program in front of it is interrupted as well"
            finally:
                scope.cancel()
    finally:
        os.close(screen)
        os.close(terminal)
    assert all_gone(nap)

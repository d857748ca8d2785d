"""A command that runs in the background, with a stream of its own."""

from __future__ import annotations

import contextlib
import math
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from environments.arguments import check_patience, check_text
from environments.errors import (
    EnvironmentLostError,
    ProcessEndedError,
    ProcessTimeoutError,
    TerminalError,
    UnsupportedError,
)
from environments.log import logger
from environments.plain_number import plain_number
from environments.process import Process
from environments.result import KILLED_EXIT_CODE
from environments.shell.lifecycle import Lifecycle
from environments.shell.output import Nowhere
from environments.shell.request import Where
from environments.shell.runner import SIGNAL_TIMEOUT, Runner, Sent
from environments.shell.running import RunningCommand
from environments.shell.shell import Shell
from environments.shell.unread import UnreadOutput, search_for
from environments.sink import OutputSink, ReadableSink
from environments.terminal import Terminal

if TYPE_CHECKING:
    from environments.observation.tap import Tap

TAIL = 500
"""Bytes of what was printed last that an error quotes."""

log = logger(__name__)

_NO_INPUT = "the process was started without an input"


class ShellProcess(Process):
    """A command that a shell of its own runs, or a fork of one that is lent.

    Args:
        sent: The request.
        running: Ends it.
        sink: Takes its output.
        runner: Says what came of it.
        life: Says who may use it.
        release: Takes the shell back.
        tap: Gets a copy of its output.
    """

    def __init__(
        self,
        sent: Sent,
        running: RunningCommand,
        sink: OutputSink,
        runner: Runner,
        life: Lifecycle,
        release: Callable[[Shell], object],
        tap: Tap | None = None,
    ) -> None:
        self.pid = sent.shell.pid
        self._sent = sent
        self._shell = sent.shell
        self._running = running
        self._sink = sink
        self._tap = tap
        self._runner = runner
        self._life = life
        self._release = release
        self._done = threading.Event()
        self._exit_code: int | None = None
        self._error: Exception | None = None
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[int | None], object]] = []
        self._input_closed = not sent.where.takes_input
        self._thread = threading.Thread(target=self._pump, name=f"hermes-process-{self.pid}", daemon=True)
        self._thread.start()

    def _pump(self) -> None:
        try:
            self._exit_code = self._run_to_end()
        except TerminalError as error:
            self._error = error
            self._life.postpone(error)  # as nobody may ever ask for it
        finally:
            self._running.finished()
            if self._running.reason or self._exit_code != 0:
                self._shell.close()  # what was written to the command may lie unread in front of the shell
            self._release(self._shell)
            with self._lock:
                self._done.set()
                callbacks, self._callbacks = self._callbacks, []
            if isinstance(self._sink, UnreadOutput):
                self._sink.end()
            for callback in callbacks:
                self._call(callback)

    def _run_to_end(self) -> int:
        failed: Exception | None = None
        try:
            ended = self._shell.receive(self._tap.into(self._sink) if self._tap else self._sink)
        except Exception as error:  # of the sink: nobody can take the output any more
            failed = error
            self._running.interrupt()
            ended = self._shell.receive(Nowhere())
        if failed:
            self._error = failed
            return ended.exit_code or 1
        if self._running.reason:
            unknown = KILLED_EXIT_CODE if ended.exit_code is None else 0
            return ended.exit_code or self._shell.stream.exit_code(SIGNAL_TIMEOUT) or unknown
        return self._runner.outcome(self._sent, self._running, ended).exit_code

    def abandon(self) -> None:
        """Note that it is being ended along with everything else of its environment."""
        self._running.abandon()

    def join(self) -> None:
        """Wait until its shell has been given back."""
        self._thread.join()

    @property
    def running(self) -> bool:
        """Whether the command has not ended."""
        return not self._done.is_set()

    def read(self) -> str:
        """Return what has come, see `Process`."""
        if not isinstance(self._sink, ReadableSink):
            return ""
        return self._sink.take(final=self._done.is_set())

    def expect(self, wanted: str | re.Pattern[str], timeout: float | None = None) -> str:
        """Wait for what the command prints, see `Process`."""
        search = search_for(wanted)
        seconds = math.inf if timeout is None else check_patience(timeout)
        if not isinstance(self._sink, UnreadOutput):
            raise UnsupportedError("the process was started with a sink of its own, which has what it prints")
        try:
            return self._sink.take_to(search, seconds)
        except EOFError:
            ended = f"the process ended with exit code {self.poll()} {_without(wanted, self._sink)}"
            raise ProcessEndedError(ended, self.poll()) from None
        except TimeoutError:
            late = f"after {plain_number(seconds)} s the process runs {_without(wanted, self._sink)}"
            raise ProcessTimeoutError(late) from None

    def write(self, data: str | bytes) -> None:
        """Send to the command, see `Process`."""
        self._life.check_process()
        if not isinstance(data, (bytes, bytearray)):
            check_text("data", data)
        if self._done.is_set():
            raise BrokenPipeError("the process has ended")
        if self._input_closed:
            raise BrokenPipeError("its input was closed" if self._sent.where.takes_input else _NO_INPUT)
        self._shell.stream.write(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else bytes(data))

    def close_stdin(self) -> None:
        """Let the command see end of file, see `Process`."""
        self._life.check_process()
        if not self._input_closed:
            self._input_closed = self._sent.where is not Where.LAST_ON_TERMINAL
            with contextlib.suppress(BrokenPipeError):
                self._shell.stream.close_write()

    def poll(self) -> int | None:
        """Return the exit code, see `Process`."""
        if not self._done.is_set():
            return None
        if self._error:
            self._life.told(self._error)
            raise self._error
        if self._exit_code is None:
            raise EnvironmentLostError("the target went away while a background process ran")
        return self._exit_code

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the end, see `Process`."""
        self._done.wait(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))
        return self.poll()

    def add_done_callback(self, callback: Callable[[int | None], object]) -> None:
        """Have a function called at the end, see `Process`."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        self._call(callback)

    def _call(self, callback: Callable[[int | None], object]) -> None:
        try:
            callback(None if self._error else self._exit_code)
        except Exception:  # of somebody else's, in a thread that must go on
            log.exception("what was to be told of the end of a background process failed")

    def kill(self) -> None:
        """End the command, see `Process`."""
        self._life.check_process()
        self._running.interrupt()
        self._done.wait()
        if self._life.is_open:  # otherwise everything has been ended
            self._running.sweep()

    def begin_ending(self) -> None:
        """Have the command ended as `kill` does, and wait for nothing."""
        self._running.interrupt()

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal, see `Process`."""
        size = Terminal.checked(rows, columns)
        if not self._done.is_set():
            with contextlib.suppress(OSError, ValueError):  # it ends just now
                self._shell.stream.resize(size)


def _without(wanted: str | re.Pattern[str], output: UnreadOutput) -> str:
    """Say what was not printed, and what was."""
    tail = output.tail(TAIL)
    printed = f"the last of it is {tail!r}" if tail else "nothing was printed since the last read"
    return f"and has not printed {(wanted if isinstance(wanted, str) else wanted.pattern)!r}; {printed}"

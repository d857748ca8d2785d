"""Background processes: start, standard input, and the table of an environment."""

from __future__ import annotations

import secrets
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import UTC, datetime

from environments.base import BaseEnvironment
from environments.errors import TerminalError
from environments.process import Process
from environments.result import KILLED_EXIT_CODE
from hermes_tools.background.notices import Notice, NoticeBox
from hermes_tools.background.output import ModelReader, ProcessOutput
from hermes_tools.background.watch import Watch
from hermes_tools.exit_codes import meaning_of
from hermes_tools.interruption import wait_for

KEPT_SECONDS = 1800.0
"""Seconds from the end of a process to its removal from the table."""
MAX_ENDED = 64
"""Limit of ended processes in the table of an environment."""
WRITE_SECONDS = 5.0
"""The time-out of a write to a process that does not read."""
_CLOSE_TIMEOUT = 5.0
_LONGEST_TEXT = 500
_LONGEST_COMMAND = 200


class BackgroundProcess:
    """A command in the background.

    Args:
        process_id: The id for the tools.
        command: The shell text.
        process: The handle.
        output: The sink.
        env: The environment.
    """

    def __init__(
        self, process_id: str, command: str, process: Process, output: ProcessOutput, env: BaseEnvironment
    ) -> None:
        self.process_id = process_id
        self.command = command
        self.process = process
        self.output = output
        self.input = _Input(process)
        self.unread = ModelReader(output, env.model_view())
        self.started = datetime.now(UTC)
        self.exit_code: int | None = None
        self.ended_at: float | None = None
        self._env = env
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._killed = False
        self._lock = threading.Lock()
        self._note: str | None = None
        self._explained = False

    def record_end(self, exit_code: int | None, box: NoticeBox | None) -> None:
        """Record the end, and put its notice before waiting callers continue.

        Args:
            exit_code: None if the target was lost.
            box: Receives the notice; None for no notice.
        """
        self.exit_code = exit_code
        self.ended_at = time.monotonic()
        try:
            if box:
                command = shown_command(self._env, self.command)
                box.put(
                    {
                        "process_id": self.process_id,
                        "kind": "exit",
                        "command": command,
                        "status": self._end_status,
                        "exit_code": exit_code,
                    }
                )
        finally:
            self._ended.set()

    @property
    def running(self) -> bool:
        """True until `record_end`."""
        return not self._ended.is_set()

    @property
    def status(self) -> str:
        """`running`, `exited`, `killed` or `lost`."""
        return "running" if self.running else self._end_status

    @property
    def _end_status(self) -> str:
        return "lost" if self.exit_code is None else "killed" if self._killed else "exited"

    @property
    def seconds(self) -> float:
        """Seconds from the start to the end, or to now."""
        return (time.monotonic() if self.ended_at is None else self.ended_at) - self._began

    def wait(self, seconds: float) -> None:
        """Wait at most `seconds` for the end.

        Raises:
            ToolInterruptedError: The scope of the current thread was cancelled. The process continues.
        """
        wait_for(self._ended.wait, seconds)

    def kill(self) -> None:
        """End the command and all processes started by it, also after its own end."""
        if self.status in ("killed", "lost"):
            return
        self._killed = self.running
        self.process.kill()
        self._ended.wait()

    def end_reason(self) -> tuple[str | None, str | None]:
        """Return the error of a lost target, and the meaning of an exit code; None for either if absent."""
        if self._end_status == "lost":
            try:
                self.process.poll()
            except TerminalError as error:
                return str(error), None
            return "the target went away", None
        with self._lock:
            if not self._explained:
                self._explained = True
                self._note = self._explanation()
        return None, self._note

    def _explanation(self) -> str | None:
        if self.exit_code is None or self._end_status == "killed":
            return None
        limit = self._env.internal.why_killed() if self.exit_code == KILLED_EXIT_CODE else None
        return limit or meaning_of(self.command, self.exit_code)


class _Input:
    """The standard input of a process. A write does not block for long if the process never reads."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._writer: threading.Thread | None = None

    def write(self, data: str) -> None:
        """Send text.

        A thread sends the text, and waits at most until the end of the process. Further calls fail meanwhile.

        Raises:
            BrokenPipeError: The process has ended, has closed its input, or has not read the previous text.
            TerminalError: The environment belongs to another process.
        """
        failures: list[Exception] = []

        def write() -> None:
            try:
                self._process.write(data)
            except (OSError, TerminalError) as error:
                failures.append(error)

        with self._lock:
            if self._writer and self._writer.is_alive():
                raise BrokenPipeError("the process has not read its earlier input yet; this input was not sent")
            self._writer = threading.Thread(target=write, name="hermes-write", daemon=True)
            self._writer.start()
            self._writer.join(WRITE_SECONDS)
            if self._writer.is_alive():
                raise BrokenPipeError("the process has not read all of this input yet; the rest is sent later")
        if failures:
            raise failures[0]

    def join(self) -> None:
        """Wait for the thread, after the end of the process."""
        with self._lock:
            writer = self._writer
        if writer:
            writer.join(_CLOSE_TIMEOUT)


class BackgroundProcesses:
    """The background processes of an environment."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._known: dict[str, BackgroundProcess] = {}

    def add(self, process: BackgroundProcess) -> None:
        """Add a process."""
        with self._lock:
            self._known[process.process_id] = process
            _in_all_environments[process.process_id] = process
            self.forget_old()

    def all(self) -> list[BackgroundProcess]:
        """Return all processes in the order of their starts."""
        self.forget_old()
        with self._lock:
            return list(self._known.values())

    def find(self, process_id: str) -> BackgroundProcess | None:
        """Return the process with an id; None if unknown."""
        self.forget_old()
        with self._lock:
            return self._known.get(process_id)

    def forget_old(self) -> None:
        """Remove processes that ended 30 minutes ago, or before 64 others."""
        with self._lock:
            ended = [(one.ended_at, one.process_id) for one in self._known.values() if one.ended_at is not None]
            ended.sort(reverse=True)
            since = time.monotonic() - KEPT_SECONDS
            for place, (ended_at, process_id) in enumerate(ended):
                if place >= MAX_ENDED or ended_at < since:
                    self._forget(process_id)

    def _forget(self, process_id: str) -> None:
        del self._known[process_id]
        _in_all_environments.pop(process_id, None)

    def close(self) -> None:
        """Remove all processes after the end of the environment."""
        with self._lock:
            known = list(self._known.values())
            for one in known:
                self._forget(one.process_id)
        for one in known:
            one.input.join()


_in_all_environments: weakref.WeakValueDictionary[str, BackgroundProcess] = weakref.WeakValueDictionary()


def background_process(process_id: str) -> Process:
    """Return the handle of a command started by `terminal(background=True)`, in any environment.

    `read` of the handle returns the output since the last `read`, at most the last 200 KB. `process` reads
    independently.

    Raises:
        KeyError: No such process: unknown, ended 30 minutes ago, before 64 others, or with the environment.
    """
    return _in_all_environments[process_id].process


def start(
    env: BaseEnvironment, command: str, workdir: str | None, pty: bool, notify_on_exit: bool, watch: Sequence[str]
) -> BackgroundProcess:
    """Start a command in the background and add it to the environment's table.

    Raises:
        TerminalError: As `start` of the environment does.
        ValueError: A pattern of `watch` is not valid.
    """
    box = env.attachments.get(NoticeBox)
    process_id = secrets.token_hex(6)
    is_known = threading.Event()

    def matched(pattern: str, line: str, count: int) -> None:
        is_known.wait()  # or a callback would receive the id of a process missing in the table
        if not box.add_matches(process_id, pattern, count):
            box.put(_watch_notice(env, process_id, command, pattern, line, count))

    def is_full(pattern: str) -> bool:
        return box.is_full(process_id, pattern)

    output = ProcessOutput(Watch(watch, matched, is_full).feed if watch else None)
    table = env.attachments.get(BackgroundProcesses)
    try:
        process = env.start(command, cwd=workdir, pty=pty, sink=output)
        started = BackgroundProcess(process_id, command, process, output, env)
        table.add(started)
    finally:
        is_known.set()

    def ended(exit_code: int | None) -> None:
        started.record_end(exit_code, box if notify_on_exit else None)
        table.forget_old()

    process.add_done_callback(ended)
    return started


def shown_command(env: BaseEnvironment, command: str) -> str:
    """Return a command without secrets, cut to 200 characters."""
    shown = env.model_view().value(command)
    return shown if len(shown) <= _LONGEST_COMMAND else f"{shown[: _LONGEST_COMMAND - 3]}..."


def _watch_notice(env: BaseEnvironment, process_id: str, command: str, pattern: str, line: str, count: int) -> Notice:
    # The line may be incomplete, with a part of a secret at each end.
    text = env.model_view().part(line, cut_before=True, cut_behind=True)[:_LONGEST_TEXT]
    return {
        "process_id": process_id,
        "kind": "watch",
        "command": shown_command(env, command),
        "pattern": pattern,
        "text": text,
        "count": count,
    }

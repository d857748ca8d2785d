"""`hermes-env exec`: runs a command; input and output pass through byte for byte."""

from __future__ import annotations

import json
import math
import shlex
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope, start_limit
from environments.errors import CallCancelledError
from environments.loop import run
from environments.observation.events import Operation, Status
from environments.options import CheckedCommand, checked
from environments.output import BoundedCapture, Channel
from environments.plain_number import plain_number
from environments.process import Background, Process
from environments.result import INTERRUPT_EXIT_CODE, KILLED_EXIT_CODE, TIMEOUT_EXIT_CODE
from hermes_env.cli.errors import JsonObject, message_of, print_message, status_of_error
from hermes_env.cli.foreground import Foreground
from hermes_env.cli.options import AsJson, Backend, Cwd, Raw, Record, Settings, Timeout, Verbose, settings_from
from hermes_env.cli.streams import (
    BROKEN_PIPE_EXIT_CODE,
    InputPump,
    LiveOutput,
    is_same_output,
    standard_input,
)


def exec_command(
    words: Annotated[list[str], typer.Argument(metavar="CMD", help="The command and its arguments.")],
    *,
    backend: Backend = None,
    timeout: Timeout = None,
    cwd: Cwd = None,
    no_input: Annotated[bool, typer.Option("--no-stdin", "-n", help="Give the command no input.")] = False,
    merge: Annotated[bool, typer.Option("--merge", help="Merge standard error into standard output.")] = False,
    as_json: AsJson = False,
    raw: Raw = False,
    record: Record = None,
    verbose: Verbose = 0,
    assignments: Settings = None,
) -> None:
    """Run a command and exit with its exit code.

    One word is shell text: `exec -- 'ls | wc -l'`. Several words are a command and its arguments, passed unchanged:
    `exec -- ls 'a file'`. Put options before the command.

    Input and output pass through without buffering. In a loop such as `while read` give -n, or the command reads the
    loop's input.

    Exit codes: the command's own; 124 time-out, 130 Ctrl-C, 126 not allowed, 125 another error of hermes-env, 2 wrong
    usage or setting.
    """
    began = time.monotonic()
    text = words[0] if len(words) == 1 else shlex.join(words)
    settings = settings_from(assignments, timeout=timeout, cwd=cwd, record=record)
    source = None if no_input else standard_input()
    foreground = Foreground()
    live = LiveOutput(foreground.scope.cancel, raw, separate=not (merge or is_same_output()))

    def work(environment: BaseEnvironment) -> tuple[Ending, CapturedOutput]:
        captured = CapturedOutput(environment.settings.max_output_bytes, separate=not merge)
        sink = captured if as_json else live
        return run_streamed(environment, text, sink, foreground.scope, timeout=timeout, source=source), captured

    ending, captured = foreground.run_in_environment(work, live, backend=backend, settings=settings, verbose=verbose)
    if ending.interrupted and foreground.ended_by:
        ending = replace(ending, note=f"ended by {foreground.ended_by}")
    if as_json:
        live.write(json.dumps(captured.result(ending, time.monotonic() - began)) + "\n")
    elif ending.note:
        print_message(ending.note, "yellow" if ending.interrupted else "red")
    raise typer.Exit(BROKEN_PIPE_EXIT_CODE if live.reader_left else ending.exit_code)


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a command."""

    exit_code: int
    timed_out: bool = False
    interrupted: bool = False
    note: str | None = None
    """The reason, if hermes-env or the target has ended the command."""

    @property
    def status(self) -> Status:
        """The status in a word."""
        if self.timed_out or self.interrupted:
            return "timeout" if self.timed_out else "interrupted"
        return "success" if self.exit_code == 0 else "error"


_INTERRUPTED = Ending(INTERRUPT_EXIT_CODE, interrupted=True)


class CapturedOutput:
    """Keeps the whole output of a command, or the head and the tail. An `OutputSink`.

    Args:
        limit: Bytes of each stream to keep.
        separate: True to keep standard error separate.
    """

    def __init__(self, limit: int, *, separate: bool) -> None:
        self.separate = separate
        channels = (Channel.STDOUT, Channel.STDERR) if separate else (Channel.STDOUT,)
        self._captures = {channel: BoundedCapture(limit) for channel in channels}
        self._frozen = False

    def add(self, channel: Channel, data: bytes) -> None:
        """Keep output, see `OutputSink`."""
        if not self._frozen:
            self._captures[channel].add(data)

    def freeze(self) -> None:
        """Ignore all later output."""
        self._frozen = True

    def result(self, ending: Ending, seconds: float) -> JsonObject:
        """Return the result of the command, ready for JSON, and release the output.

        Args:
            ending: The end of the command.
            seconds: The duration, with the start of the environment.
        """
        kept = {channel: capture.text() for channel, capture in self._captures.items()}
        texts = {
            channel: text.with_notice(f"[{text.omitted_bytes} bytes are left out]") for channel, text in kept.items()
        }
        return {
            "status": ending.status,
            "output": texts[Channel.STDOUT],
            "stderr": texts.get(Channel.STDERR),
            "exit_code": ending.exit_code,
            "timed_out": ending.timed_out,
            "interrupted": ending.interrupted,
            "duration_seconds": seconds,
            "omitted_bytes": sum(text.omitted_bytes for text in kept.values()),
            "error": ending.note,
        }


def error_result(error: Exception) -> JsonObject:
    """Return the result, ready for JSON, of a command that failed by an error of hermes-env."""
    status = status_of_error(error)
    return {
        "status": status,
        "output": getattr(error, "output", ""),
        "stderr": None,
        "exit_code": None,
        "timed_out": status == "timeout",
        "interrupted": status == "interrupted",
        "duration_seconds": 0.0,
        "omitted_bytes": 0,
        "error": message_of(error),
    }


def run_streamed(
    environment: BaseEnvironment,
    command: str,
    output: LiveOutput | CapturedOutput,
    scope: CancelScope,
    *,
    timeout: float | None = None,
    source: int | None = None,
) -> Ending:
    """Run a command, and stream the output.

    Args:
        environment: The environment.
        command: Shell text.
        output: Receives the output.
        scope: Cancelling the scope ends the command, or the start of the target.
        timeout: Seconds for the start of the target and the command together; None applies the limit of the settings to
            the command, and no limit to the start.
        source: The file descriptor of the input, read only as fast as the command reads (back-pressure); None is no
            input.

    Raises:
        StartStoppedError: The start of the target was stopped, or exceeded the time-out.
        TerminalError: As `BaseEnvironment.start`, or the input or the output failed.
    """
    call = checked(command, timeout or environment.settings.timeout)
    with environment.observation.command(call, "session") as operation, scope.active():
        background = Background("none" if source is None else "open", sink=output).copied(operation)
        ended = _run(environment, call, background, output, operation, scope, timeout, source)
        if copy := background.output_copy:
            operation.add_facts(status=ended.status, exit_code=ended.exit_code, note=ended.note, **copy.facts())
    return ended


def _run(
    environment: BaseEnvironment,
    call: CheckedCommand,
    background: Background,
    output: LiveOutput | CapturedOutput,
    operation: Operation,
    scope: CancelScope,
    timeout: float | None,
    source: int | None,
) -> Ending:
    limit = environment.settings.timeout
    with start_limit(timeout or math.inf) as clock:
        if not environment.gate.permits(call, lambda: environment.settings.cwd, "session"):
            return _INTERRUPTED
        endless = call._replace(timeout=math.inf)
        try:
            process = run(lambda waiting: environment.internal.run_in_background(waiting, endless, background))
        except CallCancelledError:
            return _INTERRUPTED
        operation.mark_sent()
        code = _exit_code(process, output, scope, limit if timeout is None else clock.left, source)
    if code is None:
        if scope.cancelled:
            return _INTERRUPTED
        note = f"the command was ended after {plain_number(timeout or limit)} s (--timeout)"
        return Ending(TIMEOUT_EXIT_CODE, timed_out=True, note=note)
    return Ending(code, note=environment.internal.why_killed() if code == KILLED_EXIT_CODE else None)


def _exit_code(
    process: Process, output: LiveOutput | CapturedOutput, scope: CancelScope, limit: float, source: int | None
) -> int | None:
    """Wait for a process, and return the exit code; None if the time limit or the scope ended the process."""
    over = threading.Event()
    process.add_done_callback(lambda _: over.set())
    with ExitStack() as stack:
        if source is not None:
            stack.callback(InputPump(source, process).stop)
        with scope.calling(over.set):
            over.wait(min(limit, threading.TIMEOUT_MAX))
        if (code := process.poll()) is not None and not scope.cancelled:
            return code
        output.freeze()
        process.kill()
    return None

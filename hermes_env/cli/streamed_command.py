"""One command in a fresh environment, with its input and its output streamed byte for byte."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope, start_limit
from environments.errors import CallCancelledError
from environments.loop import run
from environments.observation.events import Operation, Status
from environments.options import Command, checked
from environments.plain_number import plain_number
from environments.process import Background, Process
from environments.result import INTERRUPT_EXIT_CODE, KILLED_EXIT_CODE, TIMEOUT_EXIT_CODE
from hermes_env.cli.standard_input import InputPump

if TYPE_CHECKING:
    from hermes_env.cli.exec_result import CapturedOutput
    from hermes_env.cli.streams import LiveOutput

_POLL = 0.1
"""Seconds between looks at whether the command is to end."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended."""

    exit_code: int
    timed_out: bool = False
    interrupted: bool = False
    note: str | None = None
    """What we have to say about it."""

    @property
    def status(self) -> Status:
        """The same in a word."""
        if self.timed_out or self.interrupted:
            return "timeout" if self.timed_out else "interrupted"
        return "success" if self.exit_code == 0 else "error"


_INTERRUPTED = Ending(INTERRUPT_EXIT_CODE, interrupted=True)


class StreamedCommand:
    """Runs one command.

    Args:
        command: Shell text.
        timeout: Seconds for the start of the target and the command together; None has no limit for the start, and the
            one of the settings for the command.
        source: The descriptor of what the command reads, which is passed on as fast as it does; None is no input.
    """

    def __init__(self, command: str, timeout: float | None, source: int | None = None) -> None:
        self._command = command
        self._timeout = timeout
        self._source = source
        self._scope = CancelScope()

    def interrupt(self) -> None:
        """End the command, or the start of its target, from any thread. It need not have ended when this returns."""
        self._scope.cancel()

    @property
    def interrupted(self) -> bool:
        """Whether it was to be ended."""
        return self._scope.cancelled

    def run(self, environment: BaseEnvironment, output: LiveOutput | CapturedOutput) -> Ending:
        """Run the command to its end, or until it is ended.

        Args:
            environment: Where it runs.
            output: Takes what it prints, as it comes.

        Raises:
            StartStoppedError: The start of the target was stopped, or took longer than the limit.
            TerminalError: As `BaseEnvironment.start` does, or the input or the output fails.
        """
        call = checked(self._command, self._timeout or environment.settings.timeout)
        with environment.observation.command(call, "session") as operation:
            background = Background("none" if self._source is None else "open", sink=output).copied(operation)
            call = call._replace(timeout=math.inf)
            ended = self._run(environment, call, background, output, operation)
            if copy := background.output_copy:
                operation.tell(status=ended.status, exit_code=ended.exit_code, note=ended.note, **copy.facts())
        return ended

    def _run(
        self,
        environment: BaseEnvironment,
        call: Command,
        background: Background,
        output: LiveOutput | CapturedOutput,
        operation: Operation,
    ) -> Ending:
        limit = environment.settings.timeout
        with self._scope.active(), start_limit(self._timeout or math.inf) as clock:
            if not environment.gate.permits(call, lambda: environment.settings.cwd, "session"):
                return _INTERRUPTED
            try:
                process = run(lambda waiting: environment.internal.run_in_background(waiting, call, background))
            except CallCancelledError:
                return _INTERRUPTED
            operation.target_told()
            ended = self._attend(process, output, limit if self._timeout is None else clock.left)
        if ended.timed_out:
            seconds = plain_number(self._timeout or limit)
            return replace(ended, note=f"the command was ended after {seconds} s (--timeout)")
        return replace(ended, note=environment.internal.why_killed()) if ended.exit_code == KILLED_EXIT_CODE else ended

    def _attend(self, process: Process, output: LiveOutput | CapturedOutput, limit: float) -> Ending:
        with ExitStack() as stack:
            if self._source is not None:
                stack.callback(InputPump(self._source, process).stop)
            code = self._await_end(process, time.monotonic() + limit)
            if code is not None:
                return Ending(code)
            output.freeze()
            process.kill()
        if self.interrupted:
            return _INTERRUPTED
        return Ending(TIMEOUT_EXIT_CODE, timed_out=True)

    def _await_end(self, process: Process, deadline: float) -> int | None:
        """Return the exit code, or None if the command is to be ended first, or has ended as it was interrupted."""
        code = None
        while not self.interrupted and code is None and (left := deadline - time.monotonic()) > 0:
            code = process.wait(min(_POLL, left))
        if self.interrupted:
            return None
        return process.poll() if code is None else code

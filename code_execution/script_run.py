"""One run of one script: what is done for it in the target, in what order, and in how much time."""

from __future__ import annotations

import secrets
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from code_execution.child_environment import script_command, session_variables
from code_execution.ending import SCRIPT_GRACE, Deadline, side_by_side
from code_execution.interpreter import Pythons, note_begun, pythons_for
from code_execution.interruption import Interruption
from code_execution.mcp.target_files import files_go_to
from code_execution.preparation import OutOfTimeError, Preparation
from code_execution.result import (
    INTERRUPTED_MESSAGE,
    ExecutionResult,
    Status,
    assembled_output,
    timeout_message,
)
from code_execution.script_output import ScriptOutput
from code_execution.settings import CodeExecutionSettings, Mode
from code_execution.short_paths import SCRIPT, STUB
from code_execution.staging import START, stage, staging_directory, start_source
from environments.base import BaseEnvironment
from environments.errors import EnvironmentLostError, TerminalError, UnsupportedError
from environments.process import Process
from environments.result import INTERRUPT_EXIT_CODE, KILLED_EXIT_CODE, TIMEOUT_EXIT_CODE
from rpc import (
    BeforeCall,
    Dispatcher,
    FileQueueTransport,
    RelayTransport,
    ToolCallLog,
    ToolErrors,
    Transport,
    UnixSocketTransport,
    generate_stub,
)

TransportName = Literal["auto", "socket", "relay", "file"]
Tools = Mapping[str, Callable[..., object]]

INTERRUPT_POLL = 0.05
"""Seconds between looks at what may end a script, which can't be waited for together with it."""


class NotBegunError(Exception):
    """The Python that was chosen does not work."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How a script is to be run, and how long and how much of what it may do."""

    settings: CodeExecutionSettings
    timeout: float
    """Seconds."""
    max_tool_calls: int
    mode: Mode
    transport: TransportName
    tool_errors: ToolErrors
    session_env: bool = False
    """Whether the script sees what the session exports."""


class ScriptRun:
    """One script's run: stage it, start it, wait for it, end it, and say what came of it."""

    def __init__(
        self,
        env: BaseEnvironment,
        handlers: Tools,
        limits: Limits,
        interruption: Interruption,
        output: ScriptOutput,
        before_call: BeforeCall | None,
        calls: ToolCallLog,
    ) -> None:
        self._env = env
        self._handlers = handlers
        self._limits = limits
        self._interruption = interruption
        self._output = output
        self._calls = calls
        self._token = secrets.token_urlsafe(24)
        self._dispatcher = Dispatcher(
            handlers, token=self._token, max_calls=limits.max_tool_calls, before_call=before_call, log=calls
        )
        files_go_to(env, self._dispatcher.scope)

    def execute(self, code: str, argv: Sequence[str], began: float) -> ExecutionResult | None:
        """Run it to its end. Arguments and errors are those of `execute_code`.

        Args:
            code: Its source.
            argv: Its arguments.
            began: When its time began, on the monotonic clock.

        Returns:
            None if the Python that was chosen turned out not to work, and another run is to choose another.
        """
        before = Preparation(self._limits.timeout, began, self._interruption)
        try:
            with before.bounding_starts():
                return self._execute(code, argv, began, before)
        except NotBegunError:
            return None
        except (OutOfTimeError, TerminalError) as error:
            if result := before.result_of(error):
                return result
            raise

    def _execute(self, code: str, argv: Sequence[str], began: float, before: Preparation) -> ExecutionResult:
        session = session_variables(self._env) if self._limits.mode == "project" else {}
        pythons = pythons_for(self._env, session)
        before.now("looking for a Python" if pythons.doubtful else "getting the script into the target")
        with staging_directory(self._env, before.left, pythons.looking()) as staging:
            pythons = pythons.found(staging.said, self._env) if staging.said else pythons
            transport = self._chosen_transport(staging.path, pythons.likely)
            process = None
            try:
                transport.start()
                stub = generate_stub(self._handlers, transport.client_source, self._token, self._limits.tool_errors)
                files = {STUB: stub, SCRIPT: code, START: start_source()}
                stage(self._env, staging.path, files, before.left)
                before.done()
                process = self._start(pythons, session, staging.path, argv)
                ended_by_us = self._wait(process, before.deadline)
            finally:
                self._output.freeze()
                staging.removal_limit = self._end(process, transport)
            self._output.finish()
            if failure := getattr(transport, "failure", None):
                raise EnvironmentLostError(f"the script's tool calls could no longer be collected: {failure}")
            self._check_begun(process, pythons, ended_by_us, before)
            return self._result(process, ended_by_us, began)

    def _check_begun(self, process: Process, pythons: Pythons, ended_by_us: Status | None, before: Preparation) -> None:
        """Raise what is to be raised if the script has not run, and note whether its Python works."""
        beginning = self._output.beginning
        if beginning.none_found:
            raise pythons.none_works(self._env)
        if beginning.chosen is None:  # the shell did not get so far, and has said why
            return
        python = pythons.candidates[beginning.chosen]
        if beginning.begun:
            note_begun(self._env, python, begun=True)
        elif ended_by_us == "timeout":
            raise before.taken_by(f"starting the Python {python}")
        elif ended_by_us is None and process.wait() != KILLED_EXIT_CODE and python not in pythons.doubtful:
            note_begun(self._env, python, begun=False)
            raise NotBegunError

    def _end(self, process: Process | None, transport: Transport) -> float:
        """End the script, its calls and its transport, and return how many seconds are left for its directory."""
        deadline = Deadline()
        self._dispatcher.close()

        def end_processes() -> None:
            if process:
                process.kill()  # also what a script that ended by itself left in the background
            self._dispatcher.scope.end_remains()

        side_by_side((end_processes, transport.close, self._dispatcher.join), deadline)
        self._calls.close()
        return deadline.left_for_removal

    def _chosen_transport(self, directory: str, python: str) -> Transport:
        capabilities, wanted = self._env.capabilities, self._limits.transport
        if wanted == "auto":
            wanted = "socket" if capabilities.same_machine else "relay" if capabilities.duplex else "file"
        if wanted == "socket" and capabilities.same_machine:
            return UnixSocketTransport(self._dispatcher)
        if wanted == "relay" and capabilities.duplex:
            return RelayTransport(self._dispatcher, self._env, directory, python)
        if wanted == "file":
            return FileQueueTransport(self._dispatcher, self._env, directory)
        raise UnsupportedError(
            f"backend {self._env.settings.env!r} cannot do transport {wanted!r}; use 'auto', or 'file', which works "
            "on every backend"
        )

    def _start(self, pythons: Pythons, session: Mapping[str, str], directory: str, argv: Sequence[str]) -> Process:
        self._output.shorten_paths(directory)
        mode, beginning = self._limits.mode, self._output.beginning
        arguments = [f"{directory}/{START}", f"{directory}/{SCRIPT}", beginning.word, mode, *argv]
        running = f"{beginning.command} -u {shlex.join(arguments)}"
        exports = self._limits.session_env
        command = script_command(running, directory, self._env.passthrough, session, exports=exports)
        command = beginning.choosing(pythons) + command
        cwd = directory if self._limits.mode == "strict" else None
        self._calls.begin()
        return self._env.start_own(
            command, cwd=cwd, stdin="none", session_env=exports, sink=self._output, grace=SCRIPT_GRACE
        )

    def _wait(self, process: Process, deadline: float) -> Status | None:
        """Wait for the script's end, its deadline or an interruption, and say which of the latter two it was."""
        while process.running:
            left = deadline - time.monotonic()
            if left <= 0:
                return "timeout"
            if self._interruption.has_come():
                return "interrupted"
            pause = INTERRUPT_POLL if self._interruption.may_come else left
            process.wait(min(left, pause, threading.TIMEOUT_MAX))
        return None

    def _result(self, process: Process, ended_by_us: Status | None, began: float) -> ExecutionResult:
        message: str | None
        if ended_by_us == "timeout":
            code, message = TIMEOUT_EXIT_CODE, timeout_message(self._limits.timeout)
        elif ended_by_us == "interrupted":
            code, message = INTERRUPT_EXIT_CODE, INTERRUPTED_MESSAGE
        else:
            code = process.wait() or 0
            message = self._env.why_killed() if code == KILLED_EXIT_CODE else None
        status: Status = ended_by_us or ("success" if code == 0 else "error")
        output, stderr = self._output.stdout(), ""
        if status != "success":
            stderr = self._output.stderr()
            output = assembled_output(output, stderr, message)
            message = message or f"Script exited with code {code}."
        seconds = time.monotonic() - began
        calls = self._calls.close()
        return ExecutionResult(status, output, len(calls), seconds, code, message, stderr, calls)

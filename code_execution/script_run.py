"""One run of one script: what is done for it in the target, in what order, and in how much time."""

from __future__ import annotations

import math
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from code_execution.child_environment import script_command, session_variables
from code_execution.ending import SCRIPT_GRACE, end_script
from code_execution.interpreter import PYTHON, Pythons, note_begun, pythons_for
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
from code_execution.staging import START, Staging, not_staged, stage, staging_directory, start_source
from code_execution.warm.asking import NOT_ASKED, PIPES
from code_execution.warm.warmth import PATIENCE, Warmth
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

TOOLS = STUB.removesuffix(".py")
"""What a script that calls tools mostly has in it."""
_STAGING = "getting the script into the target"


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
        *,
        asks: bool = True,
    ) -> None:
        """Take what a run needs. `asks` is whether a server may be asked for a fork, see `warm`."""
        self._env = env
        self._handlers = handlers
        self._limits = limits
        self._interruption = interruption
        self._output = output
        self._calls = calls
        self._asks = asks
        self._warmth: Warmth | None = None
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
        was_cleaned_up = self._is_cleaned_up
        try:
            with before.bounding_starts():
                return self._execute(code, argv, began, before)
        except NotBegunError:
            return None
        except (OutOfTimeError, TerminalError) as error:
            if self._is_cleaned_up and not was_cleaned_up:
                return before.interrupted()
            if result := before.result_of(error):
                return result
            raise

    @property
    def _is_cleaned_up(self) -> bool:
        """Whether the environment was cleaned up, which ends all that runs in it."""
        try:
            self._env.internal.check_usable()
        except TerminalError:
            return True
        return False

    def _execute(self, code: str, argv: Sequence[str], began: float, before: Preparation) -> ExecutionResult:
        session = session_variables(self._env) if self._limits.mode == "project" else {}
        pythons = pythons_for(self._env, session)
        before.now("looking for a Python" if pythons.doubtful else _STAGING)
        warmth = self._warmth = self._found_warmth(pythons, session)
        with staging_directory(self._env) as staging:
            transport = self._chosen_transport(staging, pythons, TOOLS in code)
            process = None
            try:
                if staging.local or isinstance(transport, FileQueueTransport):
                    staging.make(self._env, before.left)
                transport.start()
                stub = generate_stub(self._handlers, transport.client_source, self._token, self._limits.tool_errors)
                files = {STUB: stub, SCRIPT: code, **self._starting_files(transport)}
                staged = stage(staging, files, warmth.pipes if warmth else (), self._output.beginning)
                before.done()
                process = self._start(pythons, session, staging, staged, argv)
                ended_by_us = self._wait(process, before.deadline, staging.path)
            finally:
                self._output.freeze()
                staging.removal_limit = self._end(process, transport)
            self._output.finish()
            if self._output.beginning.no_file_left or (isinstance(transport, RelayTransport) and transport.removed):
                staging.exists = False
            if warmth:
                warmth.see_to()
            if failure := getattr(transport, "failure", None):
                raise EnvironmentLostError(f"the script's tool calls could no longer be collected: {failure}")
            self._check_staged(ended_by_us, before)
            self._check_begun(process, pythons, ended_by_us, before)
            return self._result(process, ended_by_us, began)

    def _found_warmth(self, pythons: Pythons, session: Mapping[str, str]) -> Warmth | None:
        limits = self._limits
        if limits.settings.warm in ("off", False) or limits.session_env or not Warmth.is_possible(self._env, pythons):
            return None
        return Warmth(self._env, pythons, session, asks=self._asks)

    def _starting_files(self, transport: Transport) -> dict[str, str]:
        if not (self._warmth and self._warmth.is_asked):
            return {START: start_source()}
        keep = False
        if isinstance(transport, RelayTransport):
            self._output.beginning.on_tools_wanted = transport.wake
            keep = not transport.waits_for_script
        return self._warmth.files(self._output.beginning, keep=keep)

    def _check_staged(self, ended_by_us: Status | None, before: Preparation) -> None:
        """Raise what is to be raised if the script was not even got into the target."""
        beginning = self._output.beginning
        if beginning.failed:
            self._env.internal.check_usable()
            raise not_staged(self._env, beginning.failed, self._output.stderr())
        if ended_by_us == "timeout" and beginning.chosen is None and not beginning.none_found:
            raise before.taken_by(_STAGING)

    def _check_begun(self, process: Process, pythons: Pythons, ended_by_us: Status | None, before: Preparation) -> None:
        """Raise what is to be raised if the script has not run, and note whether its Python works."""
        beginning = self._output.beginning
        if beginning.none_found:
            raise pythons.none_works(self._env)
        if beginning.chosen is None:  # the shell did not get so far, and has said why
            return
        python = pythons.candidates[beginning.chosen]
        if self._warmth and self._warmth.is_asked:
            if not beginning.begun and ended_by_us == "timeout":
                raise before.taken_by(f"starting the Python {python}")
            took = beginning.begun or ended_by_us is not None
            if took or process.wait() != NOT_ASKED:
                self._warmth.took(took=took)
            if not beginning.begun and ended_by_us is None:
                raise NotBegunError
        elif beginning.begun:
            note_begun(self._env, python, begun=True)
        elif ended_by_us == "timeout":
            raise before.taken_by(f"starting the Python {python}")
        elif ended_by_us is None and process.wait() != KILLED_EXIT_CODE and python not in pythons.doubtful:
            note_begun(self._env, python, begun=False)
            raise NotBegunError

    def _end(self, process: Process | None, transport: Transport) -> float:
        """End the script, its calls and its transport, and return how many seconds are left for its directory."""
        left = end_script(
            process, transport, self._dispatcher, knows_that_none_is_left=self._output.beginning.no_process_left
        )
        self._calls.close()
        return left

    def _chosen_transport(self, staging: Staging, pythons: Pythons, names_tools: bool) -> Transport:
        capabilities, wanted = self._env.capabilities, self._limits.transport
        if wanted == "auto":
            wanted = "socket" if capabilities.same_machine else "relay" if capabilities.duplex else "file"
        if wanted == "socket" and capabilities.same_machine:
            return UnixSocketTransport(self._dispatcher)
        if wanted == "relay" and capabilities.duplex:
            waking = "" if names_tools or not (self._warmth and self._warmth.is_asked) else PIPES[0]
            made = f"[ -d {shlex.quote(staging.path)} ]" if waking else staging.making
            before = f"{made} || exit\n{pythons.choosing_or_ending()}"
            return RelayTransport(self._dispatcher, self._env, staging.path, PYTHON, before, waking)
        if wanted == "file":
            return FileQueueTransport(self._dispatcher, self._env, staging.path)
        raise UnsupportedError(
            f"backend {self._env.settings.env!r} cannot do transport {wanted!r}; use 'auto', or 'file', which works "
            "on every backend"
        )

    def _start(
        self, pythons: Pythons, session: Mapping[str, str], staging: Staging, staged: str, argv: Sequence[str]
    ) -> Process:
        directory, strict = staging.path, self._limits.mode == "strict"
        self._output.shorten_paths(directory)
        if strict and not staging.local:  # it is made by this very text
            staged += f"cd -- {shlex.quote(directory)} || exit\n"
        if self._warmth and self._warmth.is_asked:
            command = self._warmth.command(directory, self._output.beginning, self._limits.mode, argv)
        else:
            command = self._command(pythons, session, directory, argv)
        exports = self._limits.session_env
        cwd = (directory if staging.local else "/") if strict else None
        self._calls.begin()
        return self._env.internal.start(
            staged + command, cwd=cwd, stdin="none", session_env=exports, sink=self._output, grace=SCRIPT_GRACE
        )

    def _command(self, pythons: Pythons, session: Mapping[str, str], directory: str, argv: Sequence[str]) -> str:
        """Return shell text that chooses a Python, and becomes the script on it."""
        beginning, allowed = self._output.beginning, self._env.passthrough
        arguments = [f"{directory}/{START}", f"{directory}/{SCRIPT}", beginning.word, self._limits.mode, *argv]
        running = f"{PYTHON} -u {shlex.join(arguments)}"
        exported = allowed.names if self._limits.session_env else None
        command = script_command(running, directory, allowed.values(), session, exported)
        return beginning.choosing(pythons) + command

    def _wait(self, process: Process, deadline: float, directory: str) -> Status | None:
        """Wait for the script's end, its deadline or an interruption, and say which of the latter two it was."""
        patience = time.monotonic() + PATIENCE if self._warmth and self._warmth.is_asked else math.inf
        withdrawn = False
        while process.running:
            now = time.monotonic()
            if now >= deadline:
                return "timeout"
            if self._interruption.has_come():
                return "interrupted"
            if self._output.beginning.begun:
                patience = math.inf
            elif now >= patience and self._warmth:
                if withdrawn:
                    return None
                self._warmth.withdraw(directory)
                withdrawn, patience = True, time.monotonic() + PATIENCE
            process.wait(max(0.0, min(deadline - now, patience - now, self._interruption.pause)))
        return "interrupted" if self._is_cleaned_up and process.wait() else None

    def _result(self, process: Process, ended_by_us: Status | None, began: float) -> ExecutionResult:
        message: str | None
        if ended_by_us == "timeout":
            code, message = TIMEOUT_EXIT_CODE, timeout_message(self._limits.timeout)
        elif ended_by_us == "interrupted":
            code, message = INTERRUPT_EXIT_CODE, INTERRUPTED_MESSAGE
        else:
            code = process.wait() or 0
            message = self._env.internal.why_killed() if code == KILLED_EXIT_CODE else None
        status: Status = ended_by_us or ("success" if code == 0 else "error")
        output, stderr = self._output.stdout(), ""
        if status != "success":
            stderr = self._output.stderr()
            output = assembled_output(output, stderr, message)
            message = message or f"Script exited with code {code}."
        seconds = time.monotonic() - began
        calls = self._calls.close()
        return ExecutionResult(status, output, len(calls), seconds, code, message, stderr, calls)

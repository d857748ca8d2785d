"""A run of a script, on the loop thread: prepare, stage, start, wait, end, result."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from code_execution.limits import ENDING_LIMIT, REMOVAL_LIMIT, Limits, Tools
from code_execution.mcp.results import environment_of_script
from code_execution.output import ScriptCapture, ScriptOutput
from code_execution.result import INTERRUPTED_MESSAGE, ExecutionResult, Status, assembled_output, timeout_message
from code_execution.staging import QUEUE, files_of
from code_execution.start import BrokenPythonError, PythonProcess, is_cleaned_up, side_by_side, wait_for_end
from code_execution.time_budget import Interruption, OutOfTimeError, TimeBudget
from environments.base import BaseEnvironment
from environments.cancellation import holding, in_no_scope
from environments.errors import EnvironmentLostError, TerminalError, UnsupportedError
from environments.loop import Call, in_worker, shielded, spawn
from environments.result import INTERRUPT_EXIT_CODE, TIMEOUT_EXIT_CODE
from rpc import BeforeCall, Dispatcher, FileQueueTransport, Relay, ToolCallLog, UnixSocketTransport, generate_stub
from rpc.stub import FILE_QUEUE, SOCKET


@dataclass(frozen=True, slots=True)
class Script:
    """A script after approval: source, arguments, environment, limits and tools."""

    env: BaseEnvironment
    code: str
    argv: Sequence[str]
    limits: Limits
    tools: Tools
    interruption: Interruption
    before_call: BeforeCall | None
    on_tool_call: Callable[..., object] | None

    def dispatcher(self, token: str, log: ToolCallLog) -> Dispatcher:
        """Return a dispatcher for the script's tool calls.

        Args:
            token: Secret of the calls.
            log: Records the calls.
        """
        most = self.limits.max_tool_calls
        with holding(environment_of_script, self.env):  # tools see the context variables of this place
            return Dispatcher(self.tools, token=token, max_calls=most, before_call=self.before_call, log=log)


async def run_script(call: Call[Any], script: Script, began: float) -> Callable[[], ExecutionResult]:
    """Run a script to the end.

    Args:
        call: Carries standard output to the caller's callback.
        script: The script.
        began: Start of the script's time, on the monotonic clock.

    Returns:
        A function that builds the result on the caller's thread, because the text may be large.

    Raises:
        EnvironmentLostError: The environment was lost during the run; and all other errors of `execute_code`.
    """
    budget = TimeBudget(script.limits.timeout, began, script.interruption)

    async def run() -> Callable[[], ExecutionResult]:
        while True:
            try:
                return await Run(call, script, budget).result()
            except BrokenPythonError:  # the next run avoids that Python
                continue

    return await within_time_limit(run, script.env, budget)


async def within_time_limit(
    run: Callable[[], Awaitable[Callable[[], ExecutionResult]]], env: BaseEnvironment, budget: TimeBudget
) -> Callable[[], ExecutionResult]:
    """Run a script, and return a result even if the time limit or a cleanup came before the run.

    Args:
        run: Runs the script.
        env: The environment.
        budget: Time limit of the script.
    """
    was_cleaned_up = is_cleaned_up(env)
    try:
        with budget.limiting_starts():
            return await run()
    except (OutOfTimeError, TerminalError) as error:
        if is_cleaned_up(env) and not was_cleaned_up:
            return budget.interrupted
        if result := budget.result_of(error):
            return lambda: result
        raise


class Run:
    """A single run of a script."""

    def __init__(self, call: Call[Any], script: Script, budget: TimeBudget) -> None:
        self._view = cache(script.env.model_view)
        self._script, self._limits, self._budget = script, script.limits, budget
        self._calls = ToolCallLog(script.on_tool_call, lambda text: self._view().output(text))
        self._token = secrets.token_urlsafe(24)
        self._dispatcher = script.dispatcher(self._token, self._calls)
        self._printed = ScriptCapture(script.limits.settings, self._view, call.pieces)
        self._output = ScriptOutput(self._printed)
        self._python = PythonProcess(script.env, script.limits, budget, self._output, self._output.messages)
        self._transport: UnixSocketTransport | FileQueueTransport | Relay | None = None
        self._place = ""

    async def result(self) -> Callable[[], ExecutionResult]:
        """Run the script, and return a function that builds the result.

        Raises:
            BrokenPythonError: The chosen Python does not work.
        """
        python = self._python
        await python.prepare()
        ended_by_us: Status | None = None
        try:
            files = self._files()
            self._calls.begin()
            await python.start(files, self._script.argv, relays=isinstance(self._transport, Relay))
            self._prepare_during_start()
            ended_by_us = await self._wait()
        finally:
            await shielded(spawn(self._end(ended_by_us)))
        if (failure := getattr(self._transport, "failure", None)) and ended_by_us != "interrupted":
            raise EnvironmentLostError(f"the script's tool calls could no longer be collected: {failure}")
        python.check(ended_by_us)
        return partial(self._build_result, ended_by_us, *await self._exit_code(ended_by_us))

    def _prepare_during_start(self) -> None:
        """Prepare the transport and the view while the Python starts.

        Raises:
            TerminalError: The socket could not be created.
        """
        if isinstance(self._transport, UnixSocketTransport):
            if self._python.is_supervised and not self._python.messages.begun:
                self._python.messages.on_begun = self._listen
            else:
                self._listen()
        self._view()

    def _listen(self) -> None:
        assert isinstance(self._transport, UnixSocketTransport)
        try:
            self._transport.start(self._place)
        except OSError as error:
            if self._python.is_supervised and isinstance(error, FileNotFoundError):
                return  # the supervisor removed the directory: a script that ended at once makes no calls
            raise TerminalError(f"the socket for the script's tool calls could not be created: {error}") from error

    def _files(self) -> Mapping[str, bytes]:
        """Choose the transport, and return the files of the script's directory."""
        python, directory, output = self._python, self._python.directory, self._output
        way, client, place = self._choose_transport(), SOCKET, f"{directory}/socket"
        if way == "socket":
            self._transport = socket = UnixSocketTransport(self._dispatcher)
            place = self._place = socket.place(directory)
        elif way == "file":
            client, place = FILE_QUEUE, f"{directory}/{QUEUE}"
            self._transport = queue = FileQueueTransport(self._dispatcher, self._script.env, place)
            python.messages.on_begun = queue.start
        else:
            self._transport = relay = Relay(self._dispatcher)
            output.on_attach, python.messages.on_request = relay.attach, relay.receive
        self._printed.shorten_paths(directory)
        stub = generate_stub(self._script.tools, client, self._limits.tool_errors)
        return files_of(self._script.code, stub, self._token, place, queue=way == "file")

    def _choose_transport(self) -> str:
        is_here, is_duplex, wanted = self._python.is_here, self._python.is_duplex, self._limits.transport
        if wanted == "auto":
            return "socket" if is_here else "relay" if is_duplex else "file"
        if wanted == "file" or (wanted == "relay" and is_duplex) or (wanted == "socket" and is_here):
            return wanted
        raise UnsupportedError(
            f"backend {self._script.env.settings.env!r} does not support transport {wanted!r}; use 'auto', or "
            "'file', which works on every backend"
        )

    async def _wait(self) -> Status | None:
        """Wait for the script's end, the deadline or an interruption; return the status of the latter two."""
        python = self._python
        ending = spawn(python.ended(), may_fail=True)
        ended_by_us = await wait_for_end((ending, python.end_reported), self._budget)
        if ended_by_us is None and python.exit_code and is_cleaned_up(self._script.env):
            return "interrupted"
        return ended_by_us

    # The end of the script.

    async def _end(self, ended_by_us: Status | None) -> None:
        """End the script, its calls and its transport, and remove the directory, within limits."""
        with in_no_scope():
            deadline = time.monotonic() + ENDING_LIMIT
            dispatcher, transport = self._dispatcher, self._transport
            dispatcher.close()
            steps = ending_steps(dispatcher, self._python.end_processes(ended_by_us, deadline))
            if isinstance(transport, Relay):
                transport.end()
            elif isinstance(transport, UnixSocketTransport) and not transport.has_begun:
                transport.close()
            elif transport:
                steps["the transport of its tool calls"] = in_worker(transport.close)
            await side_by_side(steps, deadline)
            self._calls.close()
            self._output.finish()
            await self._python.remove(max(0.0, deadline - time.monotonic()) + REMOVAL_LIMIT)

    # The result.

    async def _exit_code(self, ended_by_us: Status | None) -> tuple[int, str | None]:
        """Return the script's exit code, and a message about the end."""
        if ended_by_us:
            return forced_end(ended_by_us, self._limits.timeout)
        return await self._python.exit_status()

    def _build_result(self, ended_by_us: Status | None, code: int, message: str | None) -> ExecutionResult:
        seconds, limit = time.monotonic() - self._budget.began, self._dispatcher.limit_reached
        return result_of(self._printed, self._calls, ended_by_us, code, message, seconds, limit)


def ending_steps(dispatcher: Dispatcher, processes: Awaitable[object] | None) -> dict[str, Awaitable[object]]:
    """Return the steps that end a script side by side, after its dispatcher was closed; see `side_by_side`.

    Args:
        dispatcher: The closed dispatcher.
        processes: Ends the script's processes, if they have to end. Processes left by tool calls are ended at the same
            time.
    """

    async def remains() -> None:
        scope = dispatcher.scope
        found = spawn(in_worker(scope.end_scope_processes)) if scope.has_scope_processes else None
        if processes:
            await processes
        if found:
            await shielded(found)
        if scope.has_scope_processes:  # left by a tool that has ended since
            await in_worker(scope.end_scope_processes)

    ends: dict[str, Awaitable[object]] = {"its processes": remains()}
    if dispatcher.is_awaiting:
        ends["its tool calls"] = in_worker(dispatcher.join)
    return ends


def forced_end(by: Status, timeout: float) -> tuple[int, str]:
    """Return exit code and message of a script ended by time-out or interruption."""
    if by == "timeout":
        return TIMEOUT_EXIT_CODE, timeout_message(timeout)
    return INTERRUPT_EXIT_CODE, INTERRUPTED_MESSAGE


def result_of(
    printed: ScriptCapture,
    calls: ToolCallLog,
    ended_by_us: Status | None,
    code: int,
    message: str | None,
    seconds: float,
    limit: str | None,
) -> ExecutionResult:
    """Return the result of a script that ran.

    Args:
        printed: Captured output.
        calls: Log of the tool calls.
        ended_by_us: Reason of a forced end, if any.
        code: Exit code.
        message: Message about the end.
        seconds: Duration.
        limit: Message about a reached limit.
    """
    status: Status = ended_by_us or ("success" if code == 0 else "error")
    output, stderr = printed.stdout(), ""
    if status != "success":
        stderr = printed.stderr()
        output = assembled_output(output, stderr, message)
        message = message or f"Script exited with code {code}." + (f" {limit}" if limit else "")
    made = calls.close()
    return ExecutionResult(status, output, len(made), seconds, code, message, stderr, made, limit)

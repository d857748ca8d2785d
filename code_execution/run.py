"""One run of one script, on the loop thread: prepare, stage, start, wait, end, result."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from code_execution.limits import ENDING_LIMIT, REMOVAL_LIMIT, Limits, Tools
from code_execution.mcp.results import environment_of_script
from code_execution.output import CapturedOutput, ScriptOutput
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
    """A script that may run: its text and arguments, where and how it runs, and what of ours it may call."""

    env: BaseEnvironment
    code: str
    argv: Sequence[str]
    limits: Limits
    tools: Tools
    interruption: Interruption
    before_call: BeforeCall | None
    on_tool_call: Callable[..., object] | None

    def dispatcher(self, token: str, log: ToolCallLog) -> Dispatcher:
        """Return what answers its tool calls.

        Args:
            token: What they carry.
            log: Is told of them.
        """
        most = self.limits.max_tool_calls
        with holding(environment_of_script, self.env):  # its tools see the context variables of here
            return Dispatcher(self.tools, token=token, max_calls=most, before_call=self.before_call, log=log)


async def run_script(call: Call[Any], script: Script, began: float) -> Callable[[], ExecutionResult]:
    """Run a script to its end.

    Args:
        call: Takes standard output on to the callback of its caller.
        script: The script.
        began: When its time began, on the monotonic clock.

    Returns:
        What makes the result, as the text may be large.

    Raises:
        EnvironmentLostError: The environment went away while it ran, and all other errors of `execute_code`.
    """
    budget = TimeBudget(script.limits.timeout, began, script.interruption)

    async def run() -> Callable[[], ExecutionResult]:
        while True:
            try:
                return await Run(call, script, budget).result()
            except BrokenPythonError:  # the next run passes that Python over
                continue

    return await within_its_time(run, script.env, budget)


async def within_its_time(
    run: Callable[[], Awaitable[Callable[[], ExecutionResult]]], env: BaseEnvironment, budget: TimeBudget
) -> Callable[[], ExecutionResult]:
    """Run a script, and return a result also where its time was over, or its environment cleaned up, before it ran.

    Args:
        run: Runs it.
        env: Where.
        before: Its time.
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
    """One run. It is used once."""

    def __init__(self, call: Call[Any], script: Script, budget: TimeBudget) -> None:
        self._view = cache(script.env.model_view)
        self._script, self._limits, self._budget = script, script.limits, budget
        self._calls = ToolCallLog(script.on_tool_call, lambda text: self._view().output(text))
        self._token = secrets.token_urlsafe(24)
        self._dispatcher = script.dispatcher(self._token, self._calls)
        self._printed = CapturedOutput(script.limits.settings, self._view, call.pieces)
        self._output = ScriptOutput(self._printed)
        self._python = PythonProcess(script.env, script.limits, budget, self._output, self._output.messages)
        self._transport: UnixSocketTransport | FileQueueTransport | Relay | None = None
        self._place = ""

    async def result(self) -> Callable[[], ExecutionResult]:
        """Run it, and return what makes the result of that.

        Raises:
            NotBegunError: The Python that was chosen does not work.
        """
        python = self._python
        await python.prepare()
        ended_by_us: Status | None = None
        try:
            files = self._files()
            self._calls.begin()
            await python.start(files, self._script.argv, relays=isinstance(self._transport, Relay))
            self._while_it_starts()
            ended_by_us = await self._wait()
        finally:
            await shielded(spawn(self._end(ended_by_us)))
        if (failure := getattr(self._transport, "failure", None)) and ended_by_us != "interrupted":
            raise EnvironmentLostError(f"the script's tool calls could no longer be collected: {failure}")
        python.check(ended_by_us)
        return partial(self._made_result, ended_by_us, *await self._exit_code(ended_by_us))

    def _while_it_starts(self) -> None:
        """Do what the script needs later on, in the time that its Python takes to start.

        Raises:
            TerminalError: No socket can be made.
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
                return  # its keeper has removed the directory: a script that ends at once makes no calls
            raise TerminalError(f"no socket for the script's tool calls can be made: {error}") from error

    def _files(self) -> Mapping[str, bytes]:
        """Choose how tool calls travel, and return the files of the script's directory."""
        python, directory, output = self._python, self._python.directory, self._output
        way, client, place = self._way(), SOCKET, f"{directory}/socket"
        if way == "socket":
            self._transport = socket = UnixSocketTransport(self._dispatcher)
            place = self._place = socket.place(directory)
        elif way == "file":
            client, place = FILE_QUEUE, f"{directory}/{QUEUE}"
            self._transport = queue = FileQueueTransport(self._dispatcher, self._script.env, place)
            python.messages.on_begun = queue.start
        else:
            self._transport = relay = Relay(self._dispatcher)
            output.on_attach, python.messages.on_request = relay.attach, relay.take
        self._printed.shorten_paths(directory)
        stub = generate_stub(self._script.tools, client, self._limits.tool_errors)
        return files_of(self._script.code, stub, self._token, place, queue=way == "file")

    def _way(self) -> str:
        is_here, is_duplex, wanted = self._python.is_here, self._python.is_duplex, self._limits.transport
        if wanted == "auto":
            return "socket" if is_here else "relay" if is_duplex else "file"
        if wanted == "file" or (wanted == "relay" and is_duplex) or (wanted == "socket" and is_here):
            return wanted
        raise UnsupportedError(
            f"backend {self._script.env.settings.env!r} cannot do transport {wanted!r}; use 'auto', or 'file', which "
            "works on every backend"
        )

    async def _wait(self) -> Status | None:
        """Wait for the script's end, its deadline or an interruption, and say which of the latter two it was."""
        python = self._python
        ending = spawn(python.ended(), may_fail=True)
        ended_by_us = await wait_for_end((ending, python.end_reported), self._budget)
        if ended_by_us is None and python.exit_code and is_cleaned_up(self._script.env):
            return "interrupted"
        return ended_by_us

    # The end.

    async def _end(self, ended_by_us: Status | None) -> None:
        """End the script, its calls and its transport, remove its directory, and wait for that within limits."""
        with in_no_scope():
            deadline = time.monotonic() + ENDING_LIMIT
            dispatcher, transport = self._dispatcher, self._transport
            dispatcher.close()
            steps = ends_of(dispatcher, self._python.end_processes(ended_by_us, deadline))
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

    # What came of it.

    async def _exit_code(self, ended_by_us: Status | None) -> tuple[int, str | None]:
        """Return the script's exit code, and what is to be said of its end."""
        if ended_by_us:
            return forced_end(ended_by_us, self._limits.timeout)
        return await self._python.exit_status()

    def _made_result(self, ended_by_us: Status | None, code: int, message: str | None) -> ExecutionResult:
        seconds, limit = time.monotonic() - self._budget.began, self._dispatcher.limit_reached
        return result_of(self._printed, self._calls, ended_by_us, code, message, seconds, limit)


def ends_of(dispatcher: Dispatcher, processes: Awaitable[object] | None) -> dict[str, Awaitable[object]]:
    """Return what is awaited at the end of a script, side by side, once its dispatcher is closed; see `side_by_side`.

    Args:
        dispatcher: The dispatcher.
        processes: Ends the script's own processes, if they are to end. What tool calls have left is ended beside that.
    """

    async def remains() -> None:
        scope = dispatcher.scope
        found = spawn(in_worker(scope.end_scope_processes)) if scope.has_scope_processes else None
        if processes:
            await processes
        if found:
            await shielded(found)
        if scope.has_scope_processes:  # of a tool that has ended since
            await in_worker(scope.end_scope_processes)

    ends: dict[str, Awaitable[object]] = {"its processes": remains()}
    if dispatcher.is_awaiting:
        ends["its tool calls"] = in_worker(dispatcher.join)
    return ends


def forced_end(by: Status, timeout: float) -> tuple[int, str]:
    """Return the exit code of a script that was ended by us, and what is said of it."""
    if by == "timeout":
        return TIMEOUT_EXIT_CODE, timeout_message(timeout)
    return INTERRUPT_EXIT_CODE, INTERRUPTED_MESSAGE


def result_of(
    printed: CapturedOutput,
    calls: ToolCallLog,
    ended_by_us: Status | None,
    code: int,
    message: str | None,
    seconds: float,
    limit: str | None,
) -> ExecutionResult:
    """Return the result of a script that has run.

    Args:
        printed: What it printed.
        calls: The tool calls that it made.
        ended_by_us: How we ended it, if we did.
        code: Its exit code.
        message: What is to be said of its end.
        seconds: How long it took.
        limit: Which limit it has reached.
    """
    status: Status = ended_by_us or ("success" if code == 0 else "error")
    output, stderr = printed.stdout(), ""
    if status != "success":
        stderr = printed.stderr()
        output = assembled_output(output, stderr, message)
        message = message or f"Script exited with code {code}." + (f" {limit}" if limit else "")
    made = calls.close()
    return ExecutionResult(status, output, len(made), seconds, code, message, stderr, made, limit)

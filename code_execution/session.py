"""A Python session in the target: runs script after script in one namespace; its lock, runs and end."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import replace
from functools import cache, partial
from typing import Any, Self

from code_execution.boot_program import CONTROL
from code_execution.limits import ENDING_LIMIT, REMOVAL_LIMIT, SCRIPT_GRACE, Limits, Tools, checked_environment
from code_execution.output import STUB, MessageDecoder, ScriptCapture, ScriptOutput, SessionMessages, SessionResult
from code_execution.result import ExecutionResult, Status, interrupted_message, truncation_notice
from code_execution.run import Script, ending_steps, forced_end, result_of, within_time_limit
from code_execution.session_program import SIZE_DIGITS
from code_execution.settings import Mode, load_code_execution_settings
from code_execution.staging import files_of
from code_execution.start import BrokenPythonError, PythonProcess, is_cleaned_up, side_by_side, wait_for_end
from code_execution.time_budget import TimeBudget
from environments.base import BaseEnvironment
from environments.cancellation import in_no_scope
from environments.errors import TerminalError, UnsupportedError
from environments.loop import Call, current, on_loop, shielded, spawn
from environments.model_view import ModelView
from rpc import Dispatcher, Relay, ToolCallLog, ToolErrors, generate_stub
from rpc.stub import SOCKET

GONE = "The Python of this session has ended, and its variables are lost. The next script starts a new one."
RESTARTED = "This script started a new Python: the previous one has ended, and its variables are lost."
MOST_NAMES = 8
"""Limit of named sessions per environment. Each is a process in the target."""
LONGEST_NAME = 64
EXIT_SECONDS = 2.0
"""Seconds for a Python to exit without a signal."""
FIRST = asyncio.FIRST_COMPLETED

_runs_for: ContextVar[frozenset[int]] = ContextVar("hermes_python_sessions", default=frozenset())
"""Sessions of the scripts whose tool calls the current thread handles."""


class ScriptSession:
    """A Python session with the defaults for its scripts; see `PythonSession`."""

    def __init__(
        self,
        env: BaseEnvironment,
        *,
        tools: Tools | None = None,
        timeout: float | None = None,
        max_tool_calls: int | None = None,
        mode: Mode | None = None,
        tool_errors: ToolErrors | None = None,
        session_env: bool = False,
        mcp_servers: bool | None = None,
    ) -> None:
        checked_environment(env, "AsyncPythonSession")
        settings = load_code_execution_settings()
        Limits.checked(settings, timeout, max_tool_calls, mode, "auto", tool_errors, session_env)
        self.env = env
        self.tools, self.timeout, self.max_tool_calls = tools, timeout, max_tool_calls
        self.mode: Mode = mode or settings.mode
        self.tool_errors, self.session_env, self.mcp_servers = tool_errors, bool(session_env), mcp_servers
        self._python: SessionPython | None = None
        self._lock = asyncio.Lock()
        self._is_closed = False

    @on_loop
    async def reset(self) -> None:
        """End the Python after the running script. The next script starts a new one."""
        async with self._lock:
            await self._end()

    @on_loop
    async def close(self) -> None:
        """End the Python and the running script, and refuse later scripts. Safe to call twice."""
        self._is_closed = True
        if self._python and not self._python.stop.done():
            self._python.stop.set_result(None)
        async with self._lock:
            await self._end()

    def check_options(self, env: object, mode: Mode | None, transport: str, session_env: bool) -> None:
        """Check arguments that are the session's to set.

        Raises:
            ValueError: An argument differs from the session's.
        """
        for name, value, ours in (("env", env, self.env), ("mode", mode, self.mode)):
            if value is not None and value is not ours and value != ours:
                raise ValueError(f"{name} differs from the session's; leave it out, or create a session with it")
        if transport not in ("auto", "relay"):
            raise ValueError(f"transport is {transport!r}; tool calls of a session use the relay; leave transport out")
        if session_env and not self.session_env:
            raise ValueError("session_env applies when the Python starts; pass it to PythonSession")

    def check_process(self) -> None:
        """Raise TerminalError in a forked process, where the environment must not be used."""
        if check := getattr(self.env, "check_process", None):
            check()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _end(self) -> None:
        python, self._python = self._python, None
        if python:
            await shielded(spawn(python.end()))

    # A script, on the loop.

    async def run_script(self, call: Call[Any], script: Script, began: float) -> Callable[[], ExecutionResult]:
        """Run a script to the end, see `run.run_script`."""
        if id(self) in _runs_for.get():
            raise TerminalError("a tool cannot run a script in the calling script's own session, which is locked")
        budget = TimeBudget(script.limits.timeout, began, script.interruption)

        async def run() -> Callable[[], ExecutionResult]:
            async with self._locked(budget):
                while True:
                    try:
                        return await self._run(call, script, budget)
                    except BrokenPythonError:  # the next run avoids that Python
                        self._python = None

        return await within_time_limit(run, script.env, budget)

    @contextlib.asynccontextmanager
    async def _locked(self, budget: TimeBudget) -> AsyncIterator[None]:
        budget.begin_step("the script that ran in the session before it")
        waiting = spawn(self._lock.acquire())
        try:
            await wait_for_end((waiting,), budget)
            budget.begin_step("starting the target")
            yield
        finally:
            if not waiting.cancel() and not waiting.cancelled():
                self._lock.release()

    async def _run(self, call: Call[Any], script: Script, budget: TimeBudget) -> Callable[[], ExecutionResult]:
        env, view = script.env, cache(script.env.model_view)
        env.internal.check_usable()
        if self._is_closed:
            raise TerminalError("the Python session is closed; create another one")
        note = await self._drop_ended_python()
        token = self._python.token if self._python else secrets.token_urlsafe(24)
        log = ToolCallLog(script.on_tool_call, lambda text: view().output(text))
        mine = _runs_for.set(_runs_for.get() | {id(self)})  # tools run in this context and see the variable
        try:
            dispatcher = script.dispatcher(token, log)
        finally:
            _runs_for.reset(mine)
        python = self._python = self._python or SessionPython(script, budget, dispatcher)
        printed = ScriptCapture(script.limits.settings, view, call.pieces)
        ended_by_us: Status | None = "interrupted"  # as if the caller had left
        try:
            log.begin()
            stub = await python.ready(script)
            budget.begin_step("")
            python.send(script, stub, printed, dispatcher)
            view()  # while it runs
            ended_by_us = await python.wait_for_end(budget)
        finally:
            await shielded(spawn(python.finish(dispatcher, ended_by_us)))
            log.close()
        python.process.check(ended_by_us)
        code, message = await python.exit_status(ended_by_us, script.limits.timeout)
        seconds = time.monotonic() - budget.began
        session_result = python.result() if python.is_done and not ended_by_us else None
        final_note = GONE if not python.process.is_running else note
        limit = dispatcher.limit_reached
        return partial(
            _session_result, printed, log, ended_by_us, code, message, seconds, limit, session_result, final_note, view
        )

    async def _drop_ended_python(self) -> str | None:
        """Drop a Python that has ended, and return the note for the result."""
        python = self._python
        if python is None or python.process.is_running:
            return None
        self._python = None
        await shielded(spawn(python.end()))
        return RESTARTED if python.process.messages.begun else None


class EnvironmentSessions:
    """The Python sessions of an environment, by name, mode and `session_env`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, Mode, bool], ScriptSession] = {}

    def of(self, env: BaseEnvironment, name: str, mode: Mode, session_env: bool) -> ScriptSession:
        """Return an environment's session, and create a missing one.

        Args:
            env: The environment.
            name: Name of the session; empty for the session without a name.
            mode: Mode of the scripts.
            session_env: True to pass the session's exported variables to the Python.

        Raises:
            ValueError: The name is too long, or `MOST_NAMES` other sessions exist.
        """
        if len(name) > LONGEST_NAME:
            raise ValueError(f"session is a name of {len(name)} characters; give one of at most {LONGEST_NAME}")
        with self._lock:
            names = sorted({each for each, *_ in self._sessions if each})
            if name and name not in names and len(names) >= MOST_NAMES:
                raise ValueError(
                    f"session: {name!r} would be one more than the {MOST_NAMES} sessions that an environment keeps; "
                    f"use one of them: {', '.join(names)}"
                )
            key = name, mode, session_env
            found = self._sessions.get(key)
            if found is None:
                found = self._sessions[key] = ScriptSession(env, mode=mode, session_env=session_env)
            return found

    def close(self) -> None:
        """Forget all sessions. Their processes ended with the environment."""
        self._sessions.clear()


class SessionPython:
    """The Python of a session. Used on the loop thread.

    Args:
        script: The first script.
        budget: Time limit of the first script.
        dispatcher: Answers the script's tool calls.
    """

    def __init__(self, script: Script, budget: TimeBudget, dispatcher: Dispatcher) -> None:
        word = secrets.token_hex(8)
        self.token = dispatcher.token
        """Secret of all tool calls in the session, because the scripts share the module."""
        self._results = SessionMessages(word, script.limits.settings.max_stdout_bytes)
        self._output = ScriptOutput(results=self._results)
        self._word = self._output.messages.session = word
        self.process = PythonProcess(script.env, script.limits, budget, self._output, self._output.messages)
        self.stop: asyncio.Future[None] = current().loop.create_future()
        """Done when the session is closed during a script."""
        self.result = self._results.result
        self._relay = Relay(dispatcher)
        self._ending: asyncio.Task[int] | None = None
        self._env = script.env
        self._number, self._stub = 0, ""
        self._done: asyncio.Future[None] = current().loop.create_future()
        self._streams: tuple[MessageDecoder, ...] = (self._results, self._output.messages)

    @property
    def is_done(self) -> bool:
        """True once the script has ended while the Python continues."""
        return self._done.done()

    async def ready(self, script: Script) -> str:
        """Start the Python if necessary, and return the script's stub."""
        stub = generate_stub(script.tools, SOCKET, script.limits.tool_errors)
        self._done = current().loop.create_future()
        if self._ending is None:
            await self._start(script, stub)
        return stub

    def send(self, script: Script, stub: str, printed: ScriptCapture, dispatcher: Dispatcher) -> None:
        """Send a script to the Python."""
        self._number += 1
        self._relay.dispatcher = dispatcher
        self._results.clear()
        for stream in self._streams:
            stream.passes_output = True
        self._results.on_done = partial(self._stop_output, self._results)
        self._output.messages.on_output_end = partial(self._stop_output, self._output.messages)
        printed.shorten_paths(self.process.directory)
        self._output.printed = printed
        request = {
            "number": self._number,
            "code": script.code,
            "arguments": list(script.argv),
            "stub": None if stub == self._stub else stub,
            "most": script.limits.settings.max_stdout_bytes,
        }
        self._stub = stub
        self._send_request(marshal.dumps(request, 2))

    def _stop_output(self, stream: MessageDecoder, number: int) -> None:
        if number == self._number:
            stream.passes_output = False  # later output is not the script's
            if not self._done.done() and not any(each.passes_output for each in self._streams):
                self._done.set_result(None)

    def _send_request(self, request: bytes) -> None:
        self._feed(b"a %d %d\n%*d" % (CONTROL, len(request) + SIZE_DIGITS, SIZE_DIGITS, len(request)) + request)

    async def _start(self, script: Script, stub: str) -> None:
        process = self.process
        await process.prepare()
        if not process.is_duplex:
            raise UnsupportedError(
                f"backend {self._env.settings.env!r} has no duplex stream, which a PythonSession needs; use "
                "execute_code without a session"
            )
        self._output.on_attach, self._output.messages.on_request = self._relay.attach, self._relay.receive
        self._stub = stub
        place = f"{process.directory}/socket"
        files = files_of(f"import {STUB}", stub, self.token, place, queue=False)
        await process.start(files, (), relays=True, session=self._word)
        self._ending = spawn(process.ended(), may_fail=True)

    def _feed(self, data: bytes) -> None:
        process = self._output.process
        if process:
            with contextlib.suppress(BrokenPipeError):  # the Python has ended, which is reported elsewhere
                process.feed(data)

    async def wait_for_end(self, budget: TimeBudget) -> Status | None:
        """Wait for the script's end, the deadline or an interruption; return the status of the latter two."""
        assert self._ending
        by = await wait_for_end((self._done, self.process.end_reported, self._ending, self.stop), budget)
        if self.stop.done() or (self._ending.done() and self._ending.result() and is_cleaned_up(self._env)):
            return "interrupted"
        return by

    async def finish(self, dispatcher: Dispatcher, ended_by_us: Status | None) -> None:
        """End the script and its calls. A forced end sends an interrupt first, and then ends the Python."""
        with in_no_scope():
            if ended_by_us and self.process.is_running:
                self._send_request(b"")  # seen before the script starts; later the signal is
                self._feed(b"i 0 0\n")
            dispatcher.close()
            if ended_by_us and self._ending:
                await asyncio.wait((self._ending, self._done), timeout=SCRIPT_GRACE, return_when=FIRST)
            ending = None if self.is_done else self.end(ended_by_us)
            limit = ENDING_LIMIT + (REMOVAL_LIMIT if ending else 0)
            await side_by_side(ending_steps(dispatcher, ending), time.monotonic() + limit)
            if not self.is_done:
                self._output.finish()
            elif self._output.printed:
                self._output.printed.finish(self._output.process)
            self._output.printed = None

    async def end(self, ended_by_us: Status | None = None) -> None:
        """End the Python and all processes left by scripts, and remove the directory.

        An idle Python exits without a signal, as a script does at its end. `atexit` functions have a few seconds.
        """
        with in_no_scope():
            deadline = time.monotonic() + ENDING_LIMIT
            if self._ending and self.process.is_running and not ended_by_us:
                self._feed(b"\n")
                await asyncio.wait((self._ending,), timeout=EXIT_SECONDS)
            self._relay.end()
            forced = "interrupted" if self.process.is_running else ended_by_us
            await side_by_side({"its processes": self.process.end_processes(forced, deadline)}, deadline)
            await self.process.remove(max(0.0, deadline - time.monotonic()) + REMOVAL_LIMIT)

    async def exit_status(self, ended_by_us: Status | None, timeout: float) -> tuple[int, str | None]:
        """Return the script's exit code, and a message about the end."""
        if ended_by_us:
            code, message = forced_end(ended_by_us, timeout)
            return code, interrupted_message(timeout) if self.is_done and ended_by_us == "timeout" else message
        if self.is_done:
            return self.result().code, None
        return await self.process.exit_status()


def _session_result(
    printed: ScriptCapture,
    log: ToolCallLog,
    ended_by_us: Status | None,
    code: int,
    message: str | None,
    seconds: float,
    limit: str | None,
    session_result: SessionResult | None,
    note: str | None,
    view: Callable[[], ModelView],
) -> ExecutionResult:
    result = result_of(printed, log, ended_by_us, code, message, seconds, limit)
    if session_result is None:
        return replace(result, note=note)
    value = None
    if session_result.value is not None:
        value = view().output(session_result.value.decode("utf-8", "replace"))
        if session_result.value_bytes > len(session_result.value):
            value = f"{value}\n{truncation_notice(len(session_result.value))}"
    if session_result.left_out:
        left = f"{session_result.left_out} figures of matplotlib are left out: at most 10 of 5 MB are shown."
        note = f"{note} {left}" if note else left
    return replace(result, value=value, images=session_result.figures, note=note)

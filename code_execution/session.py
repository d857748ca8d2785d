"""A Python that stays in the target, and runs one script after another in one namespace: its turns, runs and end."""

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
from code_execution.output import STUB, CapturedOutput, MessageDecoder, ScriptOutput, SessionMessages, SessionResult
from code_execution.result import ExecutionResult, Status, interrupted_message, truncation_notice
from code_execution.run import Script, ends_of, forced_end, result_of, within_its_time
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

GONE = "The Python of this session has ended, and its variables are gone. The next script begins in a new one."
RESTARTED = "This script began in a new Python: the one of the scripts before has ended, and its variables are gone."
MOST_NAMES = 8
"""How many named sessions an environment keeps for its scripts. Each is a process in the target."""
LONGEST_NAME = 64
LAST_WORDS = 2.0
"""Seconds that a Python has to end by itself."""
FIRST = asyncio.FIRST_COMPLETED

_runs_for: ContextVar[frozenset[int]] = ContextVar("hermes_python_sessions", default=frozenset())
"""The sessions whose scripts the current thread answers tool calls of."""


class ScriptSession:
    """A Python that stays, with what holds for its scripts; see `PythonSession`."""

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
        """End the Python, once the script that runs in it has ended. The next script begins in a new one."""
        async with self._lock:
            await self._end()

    @on_loop
    async def close(self) -> None:
        """End the Python, with the script that runs in it, and run no more. Safe to call twice."""
        self._is_closed = True
        if self._python and not self._python.stop.done():
            self._python.stop.set_result(None)
        async with self._lock:
            await self._end()

    def check_options(self, env: object, mode: Mode | None, transport: str, session_env: bool) -> None:
        """Check what a script is given that is the session's to choose.

        Raises:
            ValueError: It is another one.
        """
        for name, value, ours in (("env", env, self.env), ("mode", mode, self.mode)):
            if value is not None and value is not ours and value != ours:
                raise ValueError(f"{name} is another one than the session's; leave it out, or make a session with it")
        if transport not in ("auto", "relay"):
            raise ValueError(f"transport is {transport!r}; a session's tool calls go over its relay: leave it out")
        if session_env and not self.session_env:
            raise ValueError("session_env is for a Python that begins; give it to PythonSession")

    def check_process(self) -> None:
        """Raise TerminalError in a process that the environment does not belong to."""
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

    # One script. On the loop.

    async def run_script(self, call: Call[Any], script: Script, began: float) -> Callable[[], ExecutionResult]:
        """Run a script to its end, see `run.run_script`."""
        if id(self) in _runs_for.get():
            raise TerminalError(
                "a tool that a script calls cannot run another script in its session, which waits for it"
            )
        budget = TimeBudget(script.limits.timeout, began, script.interruption)

        async def run() -> Callable[[], ExecutionResult]:
            async with self._locked(budget):
                while True:
                    try:
                        return await self._run(call, script, budget)
                    except BrokenPythonError:  # the next one passes that Python over
                        self._python = None

        return await within_its_time(run, script.env, budget)

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
            raise TerminalError("the Python session was closed; make another one")
        note = await self._drop_ended_python()
        token = self._python.token if self._python else secrets.token_urlsafe(24)
        log = ToolCallLog(script.on_tool_call, lambda text: view().output(text))
        mine = _runs_for.set(_runs_for.get() | {id(self)})  # tools see it, as they run in this context
        try:
            dispatcher = script.dispatcher(token, log)
        finally:
            _runs_for.reset(mine)
        python = self._python = self._python or SessionPython(script, budget, dispatcher)
        printed = CapturedOutput(script.limits.settings, view, call.pieces)
        ended_by_us: Status | None = "interrupted"  # as by a caller that has left
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
        """Give up a Python that has ended, and return what is to be said of that."""
        python = self._python
        if python is None or python.process.is_running:
            return None
        self._python = None
        await shielded(spawn(python.end()))
        return RESTARTED if python.process.messages.begun else None


class EnvironmentSessions:
    """The sessions that an environment keeps for its own scripts, by their names and the way scripts run in them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, Mode, bool], ScriptSession] = {}

    def of(self, env: BaseEnvironment, name: str, mode: Mode, session_env: bool) -> ScriptSession:
        """Return the session of an environment with a name, a mode and a choice of variables.

        Args:
            env: The environment.
            name: The session's name; empty for the one without a name.
            mode: The mode of its scripts.
            session_env: Whether its Python has what the shell's session has exported.

        Raises:
            ValueError: The name is too long, or there are `MOST_NAMES` others.
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
        """Give them up. What ran in the environment has been ended."""
        self._sessions.clear()


class SessionPython:
    """The Python of a session. It lives on the loop thread.

    Args:
        script: Its first script.
        before: The time that this has.
        dispatcher: Answers its tool calls.
    """

    def __init__(self, script: Script, budget: TimeBudget, dispatcher: Dispatcher) -> None:
        word = secrets.token_hex(8)
        self.token = dispatcher.token
        """What the tool calls of all scripts carry, as they share the module."""
        self._results = SessionMessages(word, script.limits.settings.max_stdout_bytes)
        self._output = ScriptOutput(results=self._results)
        self._word = self._output.messages.session = word
        self.process = PythonProcess(script.env, script.limits, budget, self._output, self._output.messages)
        self.stop: asyncio.Future[None] = current().loop.create_future()
        """Done when the session is closed while a script runs."""
        self.result = self._results.result
        self._relay = Relay(dispatcher)
        self._ending: asyncio.Task[int] | None = None
        self._env = script.env
        self._number, self._stub = 0, ""
        self._done: asyncio.Future[None] = current().loop.create_future()
        self._streams: tuple[MessageDecoder, ...] = (self._results, self._output.messages)

    @property
    def is_done(self) -> bool:
        """Whether its script has ended by itself, and the Python goes on."""
        return self._done.done()

    async def ready(self, script: Script) -> str:
        """Start it, if it does not run, and return the stub of a script."""
        stub = generate_stub(script.tools, SOCKET, script.limits.tool_errors)
        self._done = current().loop.create_future()
        if self._ending is None:
            await self._start(script, stub)
        return stub

    def send(self, script: Script, stub: str, printed: CapturedOutput, dispatcher: Dispatcher) -> None:
        """Have it run a script."""
        self._number += 1
        self._relay.dispatcher = dispatcher
        self._results.clear()
        for stream in self._streams:
            stream.passes_output = True
        self._results.on_done = partial(self._note, self._results)
        self._output.messages.on_output_end = partial(self._note, self._output.messages)
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
        self._tell(marshal.dumps(request, 2))

    def _note(self, stream: MessageDecoder, number: int) -> None:
        if number == self._number:
            stream.passes_output = False  # what is printed from here on is not the script's
            if not self._done.done() and not any(each.passes_output for each in self._streams):
                self._done.set_result(None)

    def _tell(self, request: bytes) -> None:
        self._feed(b"a %d %d\n%*d" % (CONTROL, len(request) + SIZE_DIGITS, SIZE_DIGITS, len(request)) + request)

    async def _start(self, script: Script, stub: str) -> None:
        process = self.process
        await process.prepare()
        if not process.is_duplex:
            raise UnsupportedError(
                f"backend {self._env.settings.env!r} has no stream that goes both ways, which a PythonSession needs; "
                "execute_code works there"
            )
        self._output.on_attach, self._output.messages.on_request = self._relay.attach, self._relay.take
        self._stub = stub
        place = f"{process.directory}/socket"
        files = files_of(f"import {STUB}", stub, self.token, place, queue=False)
        await process.start(files, (), relays=True, session=self._word)
        self._ending = spawn(process.ended(), may_fail=True)

    def _feed(self, data: bytes) -> None:
        process = self._output.process
        if process:
            with contextlib.suppress(BrokenPipeError):  # it has ended, which is told elsewhere
                process.feed(data)

    async def wait_for_end(self, budget: TimeBudget) -> Status | None:
        """Wait for the script's end, its deadline or an interruption, and say which of the latter two it was."""
        assert self._ending
        by = await wait_for_end((self._done, self.process.end_reported, self._ending, self.stop), budget)
        if self.stop.done() or (self._ending.done() and self._ending.result() and is_cleaned_up(self._env)):
            return "interrupted"
        return by

    async def finish(self, dispatcher: Dispatcher, ended_by_us: Status | None) -> None:
        """End the script and its calls. One that is ended by us is interrupted first, and then the Python is ended."""
        with in_no_scope():
            if ended_by_us and self.process.is_running:
                self._tell(b"")  # before it has begun the script it sees this, and later on the signal
                self._feed(b"i 0 0\n")
            dispatcher.close()
            if ended_by_us and self._ending:
                await asyncio.wait((self._ending, self._done), timeout=SCRIPT_GRACE, return_when=FIRST)
            ending = None if self.is_done else self.end(ended_by_us)
            limit = ENDING_LIMIT + (REMOVAL_LIMIT if ending else 0)
            await side_by_side(ends_of(dispatcher, ending), time.monotonic() + limit)
            if not self.is_done:
                self._output.finish()
            elif self._output.printed:
                self._output.printed.finish(self._output.process)
            self._output.printed = None

    async def end(self, ended_by_us: Status | None = None) -> None:
        """End the Python with all that its scripts have left, and remove its directory.

        One that is idle ends by itself, as a script does at its end. Its `atexit` functions have a few seconds.
        """
        with in_no_scope():
            deadline = time.monotonic() + ENDING_LIMIT
            if self._ending and self.process.is_running and not ended_by_us:
                self._feed(b"\n")
                await asyncio.wait((self._ending,), timeout=LAST_WORDS)
            self._relay.end()
            forced = "interrupted" if self.process.is_running else ended_by_us
            await side_by_side({"its processes": self.process.end_processes(forced, deadline)}, deadline)
            await self.process.remove(max(0.0, deadline - time.monotonic()) + REMOVAL_LIMIT)

    async def exit_status(self, ended_by_us: Status | None, timeout: float) -> tuple[int, str | None]:
        """Return the exit code of the script, and what is to be said of its end."""
        if ended_by_us:
            code, message = forced_end(ended_by_us, timeout)
            return code, interrupted_message(timeout) if self.is_done and ended_by_us == "timeout" else message
        if self.is_done:
            return self.result().code, None
        return await self.process.exit_status()


def _session_result(
    printed: CapturedOutput,
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

"""One run of one script, on the loop thread: prepare, stage, start, wait, end, result."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from code_execution.interpreter import note_begun, pythons_for, script_command, session_variables
from code_execution.limits import (
    ENDING_LIMIT,
    REMOVAL_LIMIT,
    SCRIPT_GRACE,
    Interruption,
    Limits,
    OutOfTimeError,
    Preparation,
    Tools,
)
from code_execution.mcp.target_files import files_go_to
from code_execution.output import ScriptOutput
from code_execution.result import (
    INTERRUPTED_MESSAGE,
    ExecutionResult,
    Status,
    assembled_output,
    timeout_message,
)
from code_execution.staging import QUEUE, Staging, files_of, reading_from_file, remove_here
from environments.base import BaseEnvironment
from environments.cancellation import in_no_scope
from environments.errors import EnvironmentLostError, TerminalError, UnsupportedError
from environments.files import removing
from environments.log import logger
from environments.loop import Call, current, done, in_worker, shielded, spawn, value_of
from environments.process import Process, checked_start
from environments.result import INTERRUPT_EXIT_CODE, KILLED_EXIT_CODE, TIMEOUT_EXIT_CODE
from rpc import BeforeCall, Dispatcher, FileQueueTransport, Relay, ToolCallLog, UnixSocketTransport, generate_stub
from rpc.stub import FILE_QUEUE, SOCKET

_STAGING = "getting the script into the target"
_log = logger(__name__)


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


class NotBegunError(Exception):
    """The Python that was chosen does not work."""


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
    while True:
        run = Run(call, script, began)
        try:
            return await run.result()
        except NotBegunError:  # the next run passes that Python over
            continue


class Run:
    """One run. It is used once."""

    def __init__(self, call: Call[Any], script: Script, began: float) -> None:
        env, limits, view = script.env, script.limits, script.env.model_view()
        self._env, self._script, self._limits, self._began = env, script, limits, began
        self._before = Preparation(limits.timeout, began, script.interruption)
        self._calls = ToolCallLog(script.on_tool_call, view.output)
        self._token = secrets.token_urlsafe(24)
        self._dispatcher = Dispatcher(
            script.tools,
            token=self._token,
            max_calls=limits.max_tool_calls,
            before_call=script.before_call,
            log=self._calls,
        )
        files_go_to(env, self._dispatcher.scope)
        self._output = ScriptOutput(limits.settings, view, call.pieces)
        self._messages = self._output.messages
        self._transport: UnixSocketTransport | FileQueueTransport | Relay
        self._process: Process | None = None
        self._ended: asyncio.Future[None] = current().loop.create_future()
        self._is_staged = False

    async def result(self) -> Callable[[], ExecutionResult]:
        """Run it, and return what makes the result of that.

        Raises:
            NotBegunError: The Python that was chosen turned out not to work, and another run is to choose another.
        """
        was_cleaned_up = self._is_cleaned_up
        try:
            with self._before.bounding_starts():
                return await self._run()
        except (OutOfTimeError, TerminalError) as error:
            if self._is_cleaned_up and not was_cleaned_up:
                return self._before.interrupted
            if result := self._before.result_of(error):
                return lambda: result
            raise

    @property
    def _is_cleaned_up(self) -> bool:
        """Whether the environment was cleaned up, which ends all that runs in it."""
        try:
            self._env.internal.check_usable()
        except TerminalError:
            return True
        return False

    # The steps.

    async def _run(self) -> Callable[[], ExecutionResult]:
        env, limits, before = self._env, self._limits, self._before
        can = await value_of(env, "capabilities")
        self._is_local: bool = can.same_machine
        session = await session_variables(env) if limits.mode == "project" else {}
        pythons = self._pythons = pythons_for(env, session, same_machine=self._is_local)
        before.now("looking for a Python" if pythons.doubtful else _STAGING)
        self._directory = f"{await done(env.internal.scratch_directory)}/script-{os.urandom(4).hex()}"
        self._staging = Staging(env, self._directory, self._messages, pythons)
        ended_by_us: Status | None = None
        try:
            text, given = await self._stage(can.duplex, session)
            before.now("")
            await self._start(text, given)
            ended_by_us = await self._wait()
        finally:
            await shielded(spawn(self._end(ended_by_us)))
        self._check(ended_by_us)
        return partial(self._made_result, ended_by_us, await self._exit_code(ended_by_us))

    async def _stage(self, duplex: bool, session: Mapping[str, str]) -> tuple[str, bytes]:
        """Begin to take tool calls, write the script's files, and return its command and what is sent behind it."""
        env, limits, directory = self._env, self._limits, self._directory
        way = self._way(duplex)
        place = f"{directory}/{QUEUE}" if way == "file" else f"{directory}/socket"
        if way == "socket":
            self._transport = socket = UnixSocketTransport(self._dispatcher)
            place = await in_worker(socket.start)
        elif way == "file":
            self._transport = FileQueueTransport(self._dispatcher, env, place)
        else:
            self._transport = relay = Relay(self._dispatcher)
            self._output.on_attach, self._messages.on_request = relay.attach, relay.take
        stub = generate_stub(self._script.tools, FILE_QUEUE if way == "file" else SOCKET, limits.tool_errors)
        files = files_of(self._script.code, stub, self._token, place, queue=way == "file")
        self._output.shorten_paths(directory)
        self._is_staged = True
        text, given, mode, argv = "", b"", limits.mode, self._script.argv
        self._is_kept = not self._is_local or way == "relay"
        if self._is_kept:
            self._messages.has_keeper = True
            words, given = self._staging.there(files, mode, argv, duplex=duplex, relays=way == "relay")
            if not duplex:
                text, given = reading_from_file(f"{directory}.given", given), b""
        else:
            words = await in_worker(self._staging.here, files, mode, argv)
        if isinstance(self._transport, FileQueueTransport):
            if self._is_kept:
                self._messages.on_begun = self._transport.start
            else:
                self._transport.start()
        allowed = env.passthrough
        exported = allowed.names if limits.session_env else None
        command = script_command(words, directory, allowed.values(), session, exported)
        return text + self._choosing() + command, given

    def _way(self, duplex: bool) -> str:
        wanted = self._limits.transport
        if wanted == "auto":
            return "socket" if self._is_local else "relay" if duplex else "file"
        if wanted == "file" or (wanted == "relay" and duplex) or (wanted == "socket" and self._is_local):
            return wanted
        raise UnsupportedError(
            f"backend {self._env.settings.env!r} cannot do transport {wanted!r}; use 'auto', or 'file', which works "
            "on every backend"
        )

    def _choosing(self) -> str:
        """Return shell text that chooses a Python and says which, or ends the shell."""
        return self._pythons.choosing_aloud(self._messages.saying)

    async def _start(self, text: str, given: bytes) -> None:
        strict = self._limits.mode == "strict"
        cwd = (self._directory if self._is_local and not self._is_kept else "/") if strict else None
        options: dict[str, Any] = {"cwd": cwd, "stdin": "consumed" if given else "none"}
        options |= {"session_env": self._limits.session_env, "sink": self._output, "grace": SCRIPT_GRACE}
        command, background = checked_start(text, **options)
        self._messages.on_end = self._note_end
        self._calls.begin()
        starting: Call[Any] = Call(lambda _: _nothing(), None, lambda: None, wants_pieces=False)
        self._process = await self._env.internal.run_in_background(
            starting, command._replace(is_own=True), background._replace(first_input=given)
        )

    def _note_end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    async def _wait(self) -> Status | None:
        """Wait for the script's end, its deadline or an interruption, and say which of the latter two it was."""
        assert self._process
        interruption, loop = self._script.interruption, current().loop
        ending = spawn(self._process_end())
        interrupted: asyncio.Future[None] = loop.create_future()

        def look() -> None:
            nonlocal timer
            if interruption.has_come():
                if not interrupted.done():
                    interrupted.set_result(None)
            elif interruption.event:
                timer = loop.call_later(interruption.pause, look)

        timer: asyncio.TimerHandle | None = None
        look()
        scope = interruption.scope
        with scope.calling(lambda: current().soon(look)) if scope else contextlib.nullcontext():
            try:
                left = max(0.0, min(self._before.deadline - time.monotonic(), 1e8))
                await asyncio.wait(
                    (ending, self._ended, interrupted), timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                if timer:
                    timer.cancel()
        if self._ended.done() or ending.done():
            if ending.done() and ending.result() and self._is_cleaned_up:
                return "interrupted"
            return None
        return "interrupted" if interrupted.done() else "timeout"

    async def _process_end(self) -> int:
        assert self._process
        return await done(self._process.wait) or 0

    # The end.

    async def _end(self, ended_by_us: Status | None) -> None:
        """End the script, its calls and its transport, remove its directory, and wait for that within limits."""
        with in_no_scope():
            deadline = time.monotonic() + ENDING_LIMIT
            dispatcher, transport = self._dispatcher, getattr(self, "_transport", None)
            dispatcher.close()
            steps: list[Awaitable[object]] = [self._end_processes(ended_by_us, deadline)]
            if isinstance(transport, Relay):
                transport.end()
            elif transport:
                steps.append(in_worker(transport.close))
            if dispatcher.is_awaiting:
                steps.append(in_worker(dispatcher.join))
            await _side_by_side(steps, deadline)
            self._calls.close()
            self._output.finish()
            if self._is_staged:
                await self._remove(max(0.0, deadline - time.monotonic()) + REMOVAL_LIMIT)

    async def _end_processes(self, ended_by_us: Status | None, deadline: float) -> None:
        process, scope = self._process, self._dispatcher.scope
        if process:
            if ended_by_us is None and self._messages.left in ("none", "some"):  # its keeper ends what is left
                await _side_by_side([done(process.wait)], deadline)
            if process.running or ended_by_us or self._messages.left != "none":
                await done(process.kill)  # also what a script that ended by itself left in the background
        if scope.has_remains:
            await in_worker(scope.end_remains)

    async def _remove(self, limit: float) -> None:
        if self._is_local and not self._is_kept:
            await in_worker(remove_here, self._directory, limit)
        elif not self._messages.removed:
            text = f"{removing(self._directory)}; rm -f -- {shlex.quote(self._directory)}.given"
            await _side_by_side([self._internal(text, limit)], time.monotonic() + limit)

    async def _internal(self, text: str, limit: float) -> None:
        await in_worker(partial(self._env.internal.execute, text, timeout=limit))

    # What came of it.

    def _check(self, ended_by_us: Status | None) -> None:
        """Raise what is to be raised if the script has not run, and note whether its Python works."""
        messages, env, pythons, before = self._messages, self._env, self._pythons, self._before
        if failure := getattr(self._transport, "failure", None):
            raise EnvironmentLostError(f"the script's tool calls could no longer be collected: {failure}")
        if messages.failed is not None:
            env.internal.check_usable()
            raise self._staging.failed(messages.failed)
        if messages.none_found:
            raise pythons.none_works(env)
        if messages.chosen is None:
            if ended_by_us == "timeout":
                raise before.taken_by(_STAGING)
            return  # the shell did not get so far, and has said why
        python = pythons.candidates[messages.chosen]
        if messages.is_for_another and self._staging.note_another():
            raise NotBegunError
        if messages.begun:
            note_begun(env, python, begun=True)
            self._staging.note_python()
        elif ended_by_us == "timeout":
            raise before.taken_by(f"starting the Python {python}")
        elif ended_by_us is None and self._process_code() != KILLED_EXIT_CODE and python not in pythons.doubtful:
            note_begun(env, python, begun=False)
            raise NotBegunError

    def _process_code(self) -> int:
        assert self._process
        return self._process.poll() or 0

    async def _exit_code(self, ended_by_us: Status | None) -> tuple[int, str | None]:
        """Return the script's exit code, and what is to be said of its end."""
        if ended_by_us == "timeout":
            return TIMEOUT_EXIT_CODE, timeout_message(self._limits.timeout)
        if ended_by_us == "interrupted":
            return INTERRUPT_EXIT_CODE, INTERRUPTED_MESSAGE
        code = self._process_code() if self._messages.exit_code is None else self._messages.exit_code
        message = await done(self._env.internal.why_killed) if code == KILLED_EXIT_CODE else None
        return code, message

    def _made_result(self, ended_by_us: Status | None, ended: tuple[int, str | None]) -> ExecutionResult:
        code, message = ended
        status: Status = ended_by_us or ("success" if code == 0 else "error")
        output, stderr = self._output.stdout(), ""
        limit = self._dispatcher.limit_reached
        if status != "success":
            stderr = self._output.stderr()
            output = assembled_output(output, stderr, message)
            message = message or f"Script exited with code {code}." + (f" {limit}" if limit else "")
        seconds = time.monotonic() - self._began
        calls = self._calls.close()
        return ExecutionResult(status, output, len(calls), seconds, code, message, stderr, calls, limit)


async def _nothing() -> None:
    pass


async def _side_by_side(steps: Sequence[Awaitable[object]], deadline: float) -> None:
    """Take steps at the same time, and wait for them until the deadline.

    A target that a script has stopped may never answer. Such a step goes on by itself, and nobody waits for it.

    Raises:
        Exception: What a step raised, but for TerminalError, which is logged.
    """
    tasks = [spawn(_taken(step)) for step in steps]
    _, late = await asyncio.wait(tasks, timeout=max(0.0, deadline - time.monotonic()))
    if late:
        _log.warning("a script could not be ended in time; what is left of it is still being looked for")
    for task in tasks:
        if task.done() and (error := task.result()):
            raise error


async def _taken(step: Awaitable[object]) -> BaseException | None:
    try:
        await step
    except TerminalError as error:
        _log.warning("what a script left could not be ended: %s", type(error).__name__)
    except Exception as error:
        return error
    return None

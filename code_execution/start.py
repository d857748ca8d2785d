"""A Python process in the target: interpreter, start, end, and directory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import time
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Any

from code_execution.interpreter import pythons_for, record_start, script_command, session_variables
from code_execution.limits import SCRIPT_GRACE, Limits
from code_execution.output import BootMessages
from code_execution.result import Status
from code_execution.staging import Staging, input_from_file, remove_here
from code_execution.time_budget import TimeBudget
from environments.base import BaseEnvironment
from environments.errors import TerminalError
from environments.files import removal_command
from environments.log import logger
from environments.loop import Call, current, in_worker, run_async, spawn, value_of
from environments.output import LoopSink
from environments.process import Process, checked_start
from environments.result import KILLED_EXIT_CODE

STAGING = "getting the script into the target"
_log = logger(__name__)


class BrokenPythonError(Exception):
    """The chosen Python does not work; the next start chooses another."""


class PythonProcess:
    """A Python process in the target. Used once, on the loop thread.

    Args:
        env: Environment of the process.
        limits: Mode and limits.
        budget: Time limit.
        sink: Receives the output.
        messages: Separates messages of the boot program and supervisor from the output.
    """

    def __init__(
        self, env: BaseEnvironment, limits: Limits, budget: TimeBudget, sink: LoopSink, messages: BootMessages
    ) -> None:
        self._env, self._limits, self._budget = env, limits, budget
        self._sink, self.messages = sink, messages
        self._process: Process | None = None
        self.is_supervised = False
        """True if a supervisor runs the script, and also creates the directory."""
        self._is_staged = False
        self.end_reported: asyncio.Future[None] = current().loop.create_future()
        """Done when the supervisor has reported the script's end."""

    async def prepare(self) -> None:
        """Choose the candidates for the Python and the directory."""
        env = self._env
        can = await value_of(env, "capabilities")
        self.is_here, self.is_duplex = can.same_machine, can.duplex
        self._session = await session_variables(env) if self._limits.mode == "project" else {}
        self._pythons = pythons_for(env, self._session, same_machine=self.is_here)
        self._budget.begin_step("looking for a Python" if self._pythons.doubtful else STAGING)
        self.directory = f"{await run_async(env.internal.scratch_directory)}/script-{os.urandom(4).hex()}"
        self._staging = Staging(env, self.directory, self.messages, self._pythons)

    async def start(
        self, files: Mapping[str, bytes], arguments: Sequence[str], *, relays: bool, session: str = ""
    ) -> None:
        """Stage the files, and start the Python.

        Args:
            files: Files of the directory, see `staging.files_of`.
            arguments: The script's arguments.
            relays: True to relay tool calls through the supervisor.
            session: Marker word for a Python session; empty for a single script.
        """
        env, limits, mode = self._env, self._limits, self._limits.mode
        self._is_staged = True
        # On this machine the Python finds the boot program by PYTHONPATH. A doubtful Python may not look there.
        finds_boot_program = not self._pythons.doubtful and ":" not in self.directory
        self.is_supervised = self.messages.has_supervisor = relays or not self.is_here or not finds_boot_program
        text, given = "", b""
        if self.is_supervised:
            words, given = self._staging.boot_command(
                files, mode, arguments, duplex=self.is_duplex, relays=relays, session=session
            )
            if not self.is_duplex:
                text, given = input_from_file(f"{self.directory}.given", given), b""
        else:
            words = await in_worker(self._staging.stage_here, files, mode, arguments)
        allowed = env.passthrough
        exported = allowed.names if limits.session_env else None
        command = script_command(words, self.directory, allowed.all_values(), self._session, exported)
        self._budget.begin_step("")
        cwd = ("/" if self.is_supervised else self.directory) if mode == "strict" else None
        options: dict[str, Any] = {"cwd": cwd, "stdin": "consumed" if given else "none"}
        options |= {"session_env": limits.session_env, "sink": self._sink, "grace": SCRIPT_GRACE}
        text += self._pythons.choose_and_report_command(self.messages.report_command) + command
        started, background = checked_start(text, **options)
        self.messages.on_end = self._report_end
        starting: Call[Any] = Call(lambda _: _noop(), None, lambda: None, wants_pieces=False)
        self._process = await env.internal.run_in_background(
            starting, started._replace(is_internal=True), background._replace(first_input=given)
        )

    def _report_end(self) -> None:
        if not self.end_reported.done():
            self.end_reported.set_result(None)

    @property
    def is_running(self) -> bool:
        """True while the process runs."""
        return self._process is not None and self._process.running and not self.end_reported.done()

    async def ended(self) -> int:
        """Wait for the end, and return the exit code reported by the shell."""
        assert self._process
        return await run_async(self._process.wait) or 0

    @property
    def exit_code(self) -> int:
        """Exit code of an ended Python."""
        reported = self.messages.exit_code
        return self._process_code() if reported is None else reported

    async def exit_status(self) -> tuple[int, str | None]:
        """Return the exit code, and the reason of a KILL, if known."""
        code = self.exit_code
        return code, await run_async(self._env.internal.why_killed) if code == KILLED_EXIT_CODE else None

    def _process_code(self) -> int:
        assert self._process
        return self._process.poll() or 0

    # The end of the process.

    async def end_processes(self, ended_by_us: Status | None, deadline: float) -> None:
        """End remaining processes. For a script that exited, the supervisor does so."""
        process, left = self._process, self.messages.left
        if process is None:
            return
        if ended_by_us is None and left in ("none", "some"):
            await asyncio.wait(
                (spawn(_error_of(run_async(process.wait))),), timeout=max(0.0, deadline - time.monotonic())
            )
        if process.running or ended_by_us or left != "none":
            await run_async(process.kill)  # also background processes of a script that exited

    async def remove(self, limit: float) -> None:
        """Remove the directory within `limit` seconds, unless the supervisor did."""
        if not self._is_staged:
            return
        if not self.is_supervised:
            await in_worker(remove_here, self.directory, limit)
        elif not self.messages.removed:
            text = f"{removal_command(self.directory)}; rm -f -- {shlex.quote(self.directory)}.given"
            removal = in_worker(partial(self._env.internal.execute, text, timeout=limit))
            await side_by_side({"its directory": removal}, time.monotonic() + limit)

    def check(self, ended_by_us: Status | None) -> None:
        """Raise an error if no script has run, and record whether the Python works.

        Raises:
            BrokenPythonError: The chosen Python does not work.
            UnsupportedError: No Python was found.
            TerminalError: The script could not be staged.
            OutOfTimeError: The time limit was reached before the start.
        """
        messages, env, pythons, budget = self.messages, self._env, self._pythons, self._budget
        if messages.failed is not None:
            env.internal.check_usable()
            raise self._staging.failed(messages.failed)
        if messages.none_found:
            raise pythons.not_found_error(env)
        if messages.chosen is None:
            if ended_by_us == "timeout":
                raise budget.used_up_by(STAGING)
            return  # the shell failed earlier, and has reported the reason
        python = pythons.candidates[messages.chosen]
        if messages.is_for_another and self._staging.record_rejection():
            raise BrokenPythonError
        if messages.begun:
            record_start(env, python, begun=True)
            self._staging.record_python()
        elif ended_by_us == "timeout":
            raise budget.used_up_by(f"starting the Python {python}")
        elif ended_by_us is None and self._process_code() != KILLED_EXIT_CODE and python not in pythons.doubtful:
            record_start(env, python, begun=False)
            raise BrokenPythonError


async def _noop() -> None:
    pass


async def wait_for_end(awaited: Sequence[asyncio.Future[Any]], budget: TimeBudget) -> Status | None:
    """Wait for the first of several futures and return None; or return `timeout` or `interrupted`.

    Args:
        awaited: The futures; they are not cancelled.
        budget: Has the deadline and the caller's interruption.
    """
    loop, interruption = current().loop, budget.interruption
    interrupted: asyncio.Future[None] = loop.create_future()
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer
        if interruption.is_set():
            if not interrupted.done():
                interrupted.set_result(None)
        elif interruption.event:
            timer = loop.call_later(interruption.poll_interval, look)

    look()
    scope = interruption.scope
    with scope.calling(lambda: current().soon(look)) if scope else contextlib.nullcontext():
        try:
            left = max(0.0, min(budget.deadline - time.monotonic(), 1e8))
            await asyncio.wait((*awaited, interrupted), timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if timer:
                timer.cancel()
    if any(each.done() for each in awaited):
        return None
    return "interrupted" if interrupted.done() else "timeout"


def is_cleaned_up(env: BaseEnvironment) -> bool:
    """Return True if the environment was cleaned up, which ends all its processes."""
    try:
        env.internal.check_usable()
    except TerminalError:
        return True
    return False


async def side_by_side(steps: Mapping[str, Awaitable[object]], deadline: float) -> None:
    """Run steps side by side, and wait for them until the deadline.

    A target stopped by a script may never answer, and a loaded target may answer late. Such a step continues in the
    background.

    Args:
        steps: Steps by the name of the thing to end.
        deadline: End of the wait, on the monotonic clock.

    Raises:
        Exception: An error of a step, except TerminalError, which is logged.
    """
    tasks = {spawn(_error_of(step)): name for name, step in steps.items()}
    _, late = await asyncio.wait(tasks, timeout=max(0.0, deadline - time.monotonic()))
    if late:
        names = ", ".join(name for task, name in tasks.items() if task in late)
        _log.warning("a script did not end in time; ending of %s continues in the background", names)
    for task in tasks:
        if task.done() and (error := task.result()):
            raise error


async def _error_of(step: Awaitable[object]) -> BaseException | None:
    try:
        await step
    except TerminalError as error:
        _log.warning("processes or files of a script could not be removed: %s", type(error).__name__)
    except Exception as error:
        return error
    return None

"""Runs one task in an environment, on the loop thread, both in this process and in an actor of a cluster."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.errors import EnvironmentStartError, TerminalError
from environments.loop import Call, done_within, in_worker, work_of
from hermes_env.batch.engine import Work
from hermes_env.batch.result import Result, failed, interrupted, not_begun, result_of, timed_out
from hermes_env.batch.task import Task


async def run_task(
    env: BaseEnvironment, task: Task, *, work: Work | None, timeout: float | None, scope: CancelScope
) -> Result:
    """Run a task and return the result, also after an exception.

    The loop thread runs commands. Worker threads run scripts and Python code.

    Args:
        env: The environment.
        task: The task.
        work: The Python code that works on the task; None runs the task's command or script.
        timeout: Default time limit in seconds; None is the limit of the settings.
        scope: Cancelling the scope interrupts the task.
    """
    if scope.cancelled:
        return not_begun(task.id)
    began = time.monotonic()
    limit = timeout if task.timeout is None else task.timeout
    has_begun = is_over = False
    env.observation.batch_task = task.id
    try:
        with scope.active():
            for path, contents in task.files.items():
                await _write(env, path, contents)
                has_begun = True
            if work is not None:
                has_begun = True
                is_over, returned, error = await _called(partial(work, env, task), limit, scope)
                if error is not None:
                    raise error
            elif task.command is not None:
                returned = await _executed(env, task.command, limit)
            else:
                returned = await in_worker(_script_result, env, task.script or "", limit)
            result = result_of(task.id, returned)
    except BaseException as error:  # Python code may raise anything, also asyncio's cancellation
        result = failed(task.id, error, began=has_begun or not isinstance(error, EnvironmentStartError))
        if work and not isinstance(error, TerminalError):
            result = replace(result, output=traceback.format_exc())
    finally:
        env.observation.batch_task = None
    if work and scope.cancelled:
        result = timed_out(result, limit or 0.0) if is_over else interrupted(result)
    return replace(result, duration_seconds=time.monotonic() - began)


def _may_block(env: BaseEnvironment) -> bool:
    """Return True if calls reach the user's hooks, observers or callbacks, which must not block the loop thread."""
    return env.gate.has_command_checks or env.observation.is_observed or env.progress.has_receiver


async def _write(env: BaseEnvironment, path: str, contents: str | bytes) -> None:
    data = contents.encode("utf-8", "surrogateescape") if isinstance(contents, str) else contents
    write = work_of(env.write_bytes)
    if write is None or _may_block(env):
        await in_worker(env.write_bytes, path, data)
    else:
        await write(_call(), path, data)


async def _executed(env: BaseEnvironment, command: str, limit: float | None) -> object:
    if _may_block(env):
        return await in_worker(partial(env.execute, command, timeout=limit))
    ended = await env.internal.run_in_session(_call(), env._in_session(command, timeout=limit))
    return await in_worker(ended)  # decoding of large output takes time


def _call() -> Call[Any]:
    """Return a call without a waiting thread, and without callbacks."""

    async def nothing(_: Call[Any]) -> None:
        return None

    return Call(nothing, object(), lambda: None, wants_pieces=False)


def _script_result(env: BaseEnvironment, script: str, limit: float | None) -> object:
    from code_execution import execute_code  # commands do not need it

    return execute_code(script, env=env, timeout=limit)


async def _called(
    work: Callable[[], object], limit: float | None, scope: CancelScope
) -> tuple[bool, object, BaseException | None]:
    """Call Python code on a worker thread, and cancel the scope after the time limit.

    Returns:
        True if the time limit was reached, the returned value, and the exception.
    """

    def call() -> tuple[object, BaseException | None]:
        try:
            returned = work()
            return (asyncio.run(returned) if inspect.iscoroutine(returned) else returned), None
        except BaseException as error:
            return None, error

    calling = asyncio.ensure_future(in_worker(call))
    is_over = False
    if limit is not None and limit < math.inf and not await done_within(calling, limit):
        is_over = not scope.cancelled
        await in_worker(scope.cancel)  # may call functions of the user
    return is_over, *await calling

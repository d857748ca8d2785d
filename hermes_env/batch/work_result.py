"""The result of a task, of what a command, a script or Python code has given back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from environments.errors import CallCancelledError, EnvironmentLostError, StartStoppedError, TerminalError
from environments.plain_number import plain_number
from environments.result import INTERRUPT_EXIT_CODE, TIMEOUT_EXIT_CODE, CommandResult
from hermes_env.batch.result import KEYS, STATUSES, Result

if TYPE_CHECKING:
    from code_execution.result import ExecutionResult

_OWN = ("id", "duration_seconds")
"""Fields of a result that nobody else sets."""
_WITH_BATCH = "it was ended with its batch"


def result_of(name: str, returned: object) -> Result:
    """Return the result of a task of what came of it. How long it took is left to whoever ran it.

    Args:
        name: The task's id.
        returned: What a command or a script gave, or Python code has returned: text, nothing, or a mapping of fields.

    Raises:
        TypeError: Code has returned something else.
        ValueError: It has returned a field that cannot be.
    """
    if isinstance(returned, CommandResult):
        return _of_command(name, returned)
    if isinstance(returned, Result):
        return Result(name, returned.status, returned.output, returned.exit_code, 0.0, returned.error, returned.data)
    if returned is None or isinstance(returned, str):
        return Result(name, "success", returned or "")
    if isinstance(returned, Mapping):
        return _of_fields(name, returned)
    from code_execution.result import ExecutionResult

    if isinstance(returned, ExecutionResult):
        return _of_script(name, returned)
    raise TypeError(
        f"the work has returned something of type {type(returned).__name__}; return text, a mapping of fields of the "
        "result, or what execute or execute_code returns"
    )


def not_begun(name: str) -> Result:
    """Return the result of a task that was ended with its batch before any of it ran."""
    return Result(name, "interrupted", exit_code=INTERRUPT_EXIT_CODE, error="it was not begun", began=False)


def failed(name: str, error: BaseException, *, began: bool) -> Result:
    """Return the result of a task that has ended with an error.

    Args:
        name: The task's id.
        error: What was raised.
        began: Whether any of it may have run.
    """
    said = str(error) if isinstance(error, TerminalError) else f"{type(error).__name__}: {error}"
    if isinstance(error, EnvironmentLostError):
        return Result(name, "lost", error.output, error=said)
    if isinstance(error, CallCancelledError) or (isinstance(error, StartStoppedError) and not error.timed_out):
        return Result(name, "interrupted", exit_code=INTERRUPT_EXIT_CODE, error=said, began=began)
    return Result(name, "error", error=said, began=began)


def timed_out(result: Result, limit: float) -> Result:
    """Return a result as that of a task whose time was over.

    Args:
        result: What came of it all the same.
        limit: Seconds that it had.
    """
    return replace(result, status="timeout", exit_code=TIMEOUT_EXIT_CODE, error=_after(limit))


def interrupted(result: Result) -> Result:
    """Return a result as that of a task that was ended with its batch."""
    return replace(result, status="interrupted", exit_code=INTERRUPT_EXIT_CODE, error=result.error or _WITH_BATCH)


def _of_command(name: str, done: CommandResult) -> Result:
    output = done.output + (done.stderr or "")
    if done.timed_out:
        return Result(name, "timeout", output, done.exit_code, error=_after(done.duration_seconds))
    if done.interrupted:
        return Result(name, "interrupted", output, done.exit_code, error=_WITH_BATCH)
    if done.ok:
        return Result(name, "success", output, 0)
    return Result(name, "error", output, done.exit_code, error=done.note or f"exit code {done.exit_code}")


def _after(seconds: float) -> str:
    return f"ended after {plain_number(seconds)} s, as its time limit says"


def _of_script(name: str, done: ExecutionResult) -> Result:
    data = {"limit": done.limit} if done.limit else {}
    return Result(name, done.status, done.output, done.exit_code, error=done.error, data=data)


def _of_fields(name: str, fields: Mapping[object, object]) -> Result:
    given = {str(key): value for key, value in fields.items() if key not in _OWN}
    code = given.get("exit_code")
    status = given.get("status", "success" if code in (None, 0) else "error")
    output, error = given.get("output", ""), given.get("error")
    if status not in STATUSES:
        raise ValueError(f"the work has returned status {status!r}; allowed: {', '.join(STATUSES)}")
    if not isinstance(output, str) or not isinstance(error, str | None):
        raise TypeError("the work has returned an output or an error that is no text")
    if isinstance(code, bool) or not isinstance(code, int | None):
        raise TypeError("the work has returned an exit_code that is no whole number")
    data = {key: value for key, value in given.items() if key not in KEYS}
    try:
        data = json.loads(json.dumps(data, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as problem:
        raise ValueError(f"the work has returned a field that cannot be written as JSON: {problem}") from None
    return Result(name, status, output, code, 0.0, error, data)

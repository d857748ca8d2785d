"""The result of a task: made from a command, a script or returned values, and written as a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Self, get_args

from environments.errors import CallCancelledError, EnvironmentLostError, StartStoppedError, TerminalError
from environments.plain_number import plain_number
from environments.result import INTERRUPT_EXIT_CODE, TIMEOUT_EXIT_CODE, CommandResult
from hermes_env.batch.task import TaskId, is_task_id

if TYPE_CHECKING:
    from code_execution.result import ExecutionResult

Status = Literal["success", "error", "timeout", "interrupted", "lost"]
STATUSES: tuple[Status, ...] = get_args(Status)
KEYS = ("id", "status", "output", "exit_code", "duration_seconds", "error")
"""The fields of a result. Python code may add others."""
_OWN = ("id", "duration_seconds")
"""Fields that Python code cannot set."""
_WITH_BATCH = "ended with its batch"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a task. A result without success has an exit code or an error."""

    id: TaskId
    """The id of the task."""
    status: Status
    """`success`, `error`, `timeout`; `interrupted`: ended with the batch; `lost`: the task may have begun, the end is
    unknown, and the task was not run again."""
    output: str = ""
    """The output, standard error included."""
    exit_code: int | None = None
    """The exit code; 124 after a time-out, 130 after an interrupt, None without an exit code."""
    duration_seconds: float = 0.0
    """Seconds of the task in its environment, without the start of the environment."""
    error: str | None = None
    """The reason in a sentence if the status is not `success`."""
    data: Mapping[str, object] = field(default_factory=dict)
    """Further fields returned by Python code."""
    began: bool = True
    """False if no part of the task has run, because the environment did not start or the batch ended before. Such a
    task can run again. Not part of the line."""

    def __post_init__(self) -> None:
        if self.status != "success" and self.exit_code is None and self.error is None:
            object.__setattr__(self, "error", f"the task ended with status {self.status} and without an exit code")

    @classmethod
    def of_line(cls, line: str | bytes) -> Self:
        """Return the result of a line of JSON. Raises ValueError if the line is no result."""
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError("not an object")  # noqa: TRY004  # of a file, not of an argument
        name, status = fields.get("id"), fields.get("status")
        if not is_task_id(name) or status not in STATUSES:
            raise ValueError("no id, or no status of a task")
        return cls(
            name,
            status,
            fields.get("output", ""),
            fields.get("exit_code"),
            fields.get("duration_seconds", 0.0),
            fields.get("error"),
            {key: value for key, value in fields.items() if key not in KEYS},
        )

    def to_line(self) -> str:
        """Return the result as a line of ASCII JSON with a newline. Raises TypeError or ValueError for other values."""
        fields = {
            "id": self.id,
            "status": self.status,
            "output": self.output,
            "exit_code": self.exit_code,
            "duration_seconds": round(self.duration_seconds, 6),
        }
        reason = {} if self.error is None else {"error": self.error}
        return json.dumps({**fields, **reason, **self.data}, allow_nan=False, separators=(",", ":")) + "\n"


def result_of(name: TaskId, returned: object) -> Result:
    """Return the result of a task, without its duration.

    Args:
        name: The task's id.
        returned: The value from a command, a script or Python code: text, None, or a mapping of fields.

    Raises:
        TypeError: Code has returned another type.
        ValueError: A field has a forbidden value.
    """
    if isinstance(returned, CommandResult):
        return _of_command(name, returned)
    if isinstance(returned, Result):
        return replace(returned, id=name, duration_seconds=0.0, began=True)
    if returned is None or isinstance(returned, str):
        return Result(name, "success", returned or "")
    if isinstance(returned, Mapping):
        return _of_fields(name, returned)
    from code_execution.result import ExecutionResult

    if isinstance(returned, ExecutionResult):
        return _of_script(name, returned)
    raise TypeError(
        f"the work has returned an object of type {type(returned).__name__}; return text, a mapping of fields of the "
        "result, or a result of execute or execute_code"
    )


def not_begun(name: TaskId) -> Result:
    """Return the result of a task that had not begun at the end of the batch."""
    return Result(name, "interrupted", exit_code=INTERRUPT_EXIT_CODE, error="not begun", began=False)


def failed(name: TaskId, error: BaseException, *, began: bool) -> Result:
    """Return the result of a task that ended with an exception.

    Args:
        name: The task's id.
        error: The exception.
        began: True if a part of the task may have run.
    """
    message = str(error) if isinstance(error, TerminalError) else f"{type(error).__name__}: {error}"
    if isinstance(error, EnvironmentLostError):
        return Result(name, "lost", error.output, error=message)
    if isinstance(error, CallCancelledError) or (isinstance(error, StartStoppedError) and not error.timed_out):
        return Result(name, "interrupted", exit_code=INTERRUPT_EXIT_CODE, error=message, began=began)
    return Result(name, "error", error=message, began=began)


def timed_out(result: Result, limit: float) -> Result:
    """Return a result with status `timeout`, for a time limit in seconds."""
    return replace(result, status="timeout", exit_code=TIMEOUT_EXIT_CODE, error=_after(limit))


def interrupted(result: Result) -> Result:
    """Return a result with status `interrupted`, for a task that ended with the batch."""
    return replace(result, status="interrupted", exit_code=INTERRUPT_EXIT_CODE, error=result.error or _WITH_BATCH)


def _of_command(name: TaskId, done: CommandResult) -> Result:
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


def _of_script(name: TaskId, done: ExecutionResult) -> Result:
    data = {"limit": done.limit} if done.limit else {}
    return Result(name, done.status, done.output, done.exit_code, error=done.error, data=data)


def _of_fields(name: TaskId, fields: Mapping[object, object]) -> Result:
    given = {str(key): value for key, value in fields.items() if key not in _OWN}
    code = given.get("exit_code")
    status = given.get("status", "success" if code in (None, 0) else "error")
    output, error = given.get("output", ""), given.get("error")
    if status not in STATUSES:
        raise ValueError(f"the work has returned status {status!r}; allowed: {', '.join(STATUSES)}")
    if not isinstance(output, str) or not isinstance(error, str | None):
        raise TypeError("the work has returned an output or an error that is not text")
    if isinstance(code, bool) or not isinstance(code, int | None):
        raise TypeError("the work has returned an exit_code that is not a whole number")
    data = {key: value for key, value in given.items() if key not in KEYS}
    try:
        data = json.loads(json.dumps(data, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as problem:
        raise ValueError(f"the work has returned a field that cannot be written as JSON: {problem}") from None
    return Result(name, status, output, code, 0.0, error, data)

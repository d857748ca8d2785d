"""What `terminal` returns, and how it is put together."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.errors import DeniedError
from environments.output import CapturedText
from environments.plain_number import plain_number
from environments.result import DENIED_EXIT_CODE, CommandResult
from hermes_tools.background.notices import Notice
from hermes_tools.exit_codes import meaning_of

NEVER_RAN = -1
"""The exit code of what was never run, as it could not be."""


class TerminalResult(TypedDict):
    """What `terminal` returns."""

    output: str
    exit_code: int
    error: str | None
    process_id: NotRequired[str]
    note: NotRequired[str]
    notices: NotRequired[list[Notice]]


def denied(denial: DeniedError) -> TerminalResult:
    """Return the result of a command that is not allowed."""
    return {"output": "", "exit_code": DENIED_EXIT_CODE, "error": f"denied: {denial.reason}"}


def refused(error: Exception) -> TerminalResult:
    """Return the result of a command that could not be run with the arguments it was given."""
    return {"output": "", "exit_code": NEVER_RAN, "error": str(error)}


def captured(result: CommandResult) -> CapturedText:
    """Return the output of a command as what was kept of it."""
    return CapturedText(result.output, result.omitted_bytes, result.omitted_at)


def timed_out(env: BaseEnvironment, timeout: float | None) -> str:
    """Say that a command's time was up."""
    return f"timed out after {plain_number(env.settings.timeout if timeout is None else timeout)} s"


def answer(
    env: BaseEnvironment,
    command: str,
    timeout: float | None,
    workdir: str | None,
    result: CommandResult,
    output: str,
) -> TerminalResult:
    """Return the result of a command that was run.

    Args:
        env: Where it ran.
        command: The shell text, which tells what its exit code means.
        timeout: The limit that was asked for.
        workdir: The directory that was asked for.
        result: What came of it.
        output: What is shown of its output.
    """
    error = timed_out(env, timeout) if result.timed_out else "interrupted" if result.interrupted else None
    shown = TerminalResult(output=output, exit_code=result.exit_code, error=error)
    if note := result.note or (None if error else meaning_of(command, result.exit_code, workdir)):
        shown["note"] = note
    return shown

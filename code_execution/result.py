"""The result of a script, and the assembly of its output."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass, field
from typing import Literal

from environments.output import CapturedText
from environments.plain_number import plain_number
from rpc import ToolCall

Status = Literal["success", "error", "timeout", "interrupted"]

INTERRUPTED_MESSAGE = "[execution interrupted — user sent a new message]"


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The result of `execute_code`."""

    status: Status
    """`success` for exit code 0, `error` for any other, `timeout` or `interrupted` for a script ended from here."""
    output: str
    """Standard output; after a failure also standard error, and a message about a forced end."""
    tool_calls_made: int
    """Number of accepted tool calls, including failed ones."""
    duration_seconds: float
    """Wall-clock time of the whole call."""
    exit_code: int | None
    """Exit code; 124 after a time-out, 130 when interrupted, None if the script never ran."""
    error: str | None = None
    """Reason of a status other than `success`, in a sentence."""
    stderr: str = ""
    """Standard error of a failed script. Also part of `output`."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Accepted tool calls, in the order of their start."""
    limit: str | None = None
    """Limit that refused a tool call to the script, in a sentence; None if there was none."""

    note: str | None = None
    """Loss of a session's variables, or figures left out, in a sentence; see `PythonSession`."""
    value: str | None = None
    """In a session, the `repr` of the script's last expression; None for no expression or the value None."""
    images: tuple[bytes, ...] = field(default=(), repr=False)
    """In a session, the open figures of matplotlib as PNG."""

    def to_dict(self) -> dict[str, object]:
        """Return the fields, ready for JSON; images as base64."""
        images = [base64.b64encode(image).decode() for image in self.images]
        return {**asdict(self), "tool_calls": [asdict(call) for call in self.tool_calls], "images": images}


def timeout_message(seconds: float) -> str:
    """Return the message about a script killed at the time-out."""
    return f"Script timed out after {plain_number(seconds)}s and was killed."


def interrupted_message(seconds: float) -> str:
    """Return the message about a session's script that was interrupted at the time-out."""
    return f"Script timed out after {plain_number(seconds)}s and was interrupted."


def not_run_message(seconds: float, used_up_by: str) -> str:
    """Return the message about a script not started within the time limit.

    Args:
        seconds: The time limit.
        used_up_by: The step that took the time.
    """
    return f"The time limit of {plain_number(seconds)} s was used up by {used_up_by}; the script did not run."


def truncation_notice(limit: int) -> str:
    """Return the line for truncated output.

    Args:
        limit: Bytes kept.
    """
    size = f"{limit // 1000}KB" if limit >= 1000 else f"{limit} bytes"
    return f"[output truncated at {size}]"


def assembled_output(stdout: str, stderr: str, message: str | None) -> str:
    """Assemble a failed script's output.

    Args:
        stdout: Standard output.
        stderr: Standard error; may be empty.
        message: Message about the end, if any.
    """
    parts = [stdout.rstrip("\n")]
    if stderr.strip():
        parts.append("--- stderr ---\n" + stderr.rstrip("\n"))
    if message:
        parts.append(message)
    return "\n".join(part for part in parts if part)


def with_truncation_notice(captured: CapturedText, limit: int) -> str:
    """Return captured text with a notice where output was truncated."""
    return captured.with_notice(truncation_notice(limit))

"""What came of a script, and how its output is cut and put together."""

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
    """What `execute_code` returns."""

    status: Status
    """`success` for exit code 0, `error` for any other, `timeout` or `interrupted` when it was ended by us."""
    output: str
    """What the script printed; after a failure also its standard error, and a message if we ended it."""
    tool_calls_made: int
    """How many tool calls were accepted, those that failed included."""
    duration_seconds: float
    """Wall-clock time of the whole call."""
    exit_code: int | None
    """The script's exit code; 124 after a time-out, 130 when interrupted, None if it never ran."""
    error: str | None = None
    """Why the status is not `success`, in a sentence."""
    stderr: str = ""
    """The standard error of a script that failed. It is part of `output` too."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The tool calls that were accepted, in the order in which they came."""
    limit: str | None = None
    """Which limit has refused something to the script, in a sentence; None if none has."""

    note: str | None = None
    """What became of a session's variables, or was left out of the result, in a sentence; see `PythonSession`."""
    value: str | None = None
    """In a session, how the value of the script's last expression is written; None if it has none, or is None."""
    images: tuple[bytes, ...] = field(default=(), repr=False)
    """In a session, the open figures of matplotlib as PNG."""

    def to_dict(self) -> dict[str, object]:
        """Return the fields, ready for JSON; images as base64."""
        images = [base64.b64encode(image).decode() for image in self.images]
        return {**asdict(self), "tool_calls": [asdict(call) for call in self.tool_calls], "images": images}


def timeout_message(seconds: float) -> str:
    """Return what is said of a script that ran out of time."""
    return f"Script timed out after {plain_number(seconds)}s and was killed."


def interrupted_message(seconds: float) -> str:
    """Return what is said of a script of a session that ran out of time, and was interrupted."""
    return f"Script timed out after {plain_number(seconds)}s and was interrupted."


def not_run_message(seconds: float, used_up_by: str) -> str:
    """Return what is said of a script whose time was over before it ran.

    Args:
        seconds: Its time limit.
        used_up_by: What took that time.
    """
    return f"The time limit of {plain_number(seconds)} s was used up by {used_up_by}; the script did not run."


def truncation_notice(limit: int) -> str:
    """Return the line that stands where output was left out.

    Args:
        limit: How many bytes were kept.
    """
    size = f"{limit // 1000}KB" if limit >= 1000 else f"{limit} bytes"
    return f"[output truncated at {size}]"


def assembled_output(stdout: str, stderr: str, message: str | None) -> str:
    """Put a failed script's output together.

    Args:
        stdout: What it printed.
        stderr: What it printed on standard error; may be empty.
        message: What we have to say about its end, if anything.
    """
    parts = [stdout.rstrip("\n")]
    if stderr.strip():
        parts.append("--- stderr ---\n" + stderr.rstrip("\n"))
    if message:
        parts.append(message)
    return "\n".join(part for part in parts if part)


def with_truncation_notice(captured: CapturedText, limit: int) -> str:
    """Return captured text with the notice where something was left out."""
    return captured.with_notice(truncation_notice(limit))

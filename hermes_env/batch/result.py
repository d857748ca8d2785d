"""What came of one task of a batch, and the line it is written as."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

Status = Literal["success", "error", "timeout", "interrupted", "lost"]
STATUSES: tuple[Status, ...] = get_args(Status)
KEYS = ("id", "status", "output", "exit_code", "duration_seconds", "error")
"""What every result's line may hold. Python code that works on tasks may add fields of its own."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one task."""

    id: str
    """The task's."""
    status: Status
    """`success`, `error`, `timeout`; `interrupted`: it was ended with its batch; `lost`: it may have begun, its end is
    not known, and it was not run again."""
    output: str = ""
    """What it printed, standard error included."""
    exit_code: int | None = None
    """The exit code; 124 after a time-out, 130 when interrupted, None if there is none."""
    duration_seconds: float = 0.0
    """Wall-clock time of the task in its environment, without the start of that."""
    error: str | None = None
    """Why the status is not `success`, in a sentence."""
    data: Mapping[str, object] = field(default_factory=dict)
    """Further fields, which Python code that worked on the task has returned."""
    began: bool = True
    """Whether any of it may have run. One that has certainly not, as its environment could not be started or the batch
    ended before, can be run again without being run twice. It is not part of the line."""

    @classmethod
    def of_line(cls, line: str | bytes) -> Self:
        """Return the result of a line of JSON. Raises ValueError if it is none."""
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError("it is no object")  # noqa: TRY004  # of a file, not of an argument
        name, status = fields.get("id"), fields.get("status")
        if not isinstance(name, str) or status not in STATUSES:
            raise ValueError("it has no id, or no status of a task")
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
        """Return it as one line of JSON in ASCII, with its newline. Raises TypeError or ValueError for odd `data`."""
        fields = {
            "id": self.id,
            "status": self.status,
            "output": self.output,
            "exit_code": self.exit_code,
            "duration_seconds": round(self.duration_seconds, 6),
        }
        reason = {} if self.error is None else {"error": self.error}
        return json.dumps({**fields, **reason, **self.data}, allow_nan=False, separators=(",", ":")) + "\n"

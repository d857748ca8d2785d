"""What is written on the sandboxes of a service, so that they are found again: by the next process, or by `gc`."""

from __future__ import annotations

from environments.owner import Owner

OWNER = "hermes-owner"
"""The process a sandbox belongs to, as `Owner.mark`."""
KEPT = "hermes-kept"
"""On a sandbox whose files are to be kept: what it is found by."""
TASK = "hermes-task"
CREATED = "hermes-created"
"""When it was made, in whole seconds since the epoch, where the service does not say."""
_TASK_LENGTH = 60
"""Characters of a task's name, which is there for people to read."""


def readable(task: str) -> str:
    """Return a task's name in letters, digits, `-`, `_` and `.` alone, and not too long."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in task)[:_TASK_LENGTH]


def sandbox_labels(task: str, key: str | None) -> dict[str, str]:
    """Return the labels of a sandbox of this process.

    Args:
        task: What it is for.
        key: What it is found by if its files are to be kept.
    """
    own = {OWNER: Owner.this_process().mark, TASK: readable(task) or "_"}
    return {**own, KEPT: key} if key else own

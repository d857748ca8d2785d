"""Many tasks over many environments: here with threads, past one machine with Ray."""

from __future__ import annotations

from hermes_env.batch.result import Result
from hermes_env.batch.task import Task, TaskError

__all__ = ["Result", "Task", "TaskError"]

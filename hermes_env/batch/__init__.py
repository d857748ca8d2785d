"""Batches: many tasks over many environments, in this process or on a Ray cluster."""

from __future__ import annotations

from hermes_env.batch.engine import Engine, Plan
from hermes_env.batch.journal import read_results
from hermes_env.batch.progress import BatchProgress, Summary
from hermes_env.batch.result import Result
from hermes_env.batch.run import run_batch
from hermes_env.batch.task import Task, TaskError

__all__ = ["BatchProgress", "Engine", "Plan", "Result", "Summary", "Task", "TaskError", "read_results", "run_batch"]

"""What is said of actors that are lost, and of their tasks."""

from __future__ import annotations

from environments.errors import EnvironmentLostError, EnvironmentStartError
from hermes_env.batch.result import Result
from hermes_env.batch.work_result import failed


def lost_task(name: str, error: Exception | None) -> Result:
    """Return the result of a task that may have run when its actor was lost.

    Args:
        name: The task's id.
        error: What Ray raised, if it did.
    """
    said = f": {_said(error)}" if error else ""
    lost = EnvironmentLostError(
        f"the actor that held the environment was lost while the task may have run, so it was not run again{said}"
    )
    return failed(name, lost, began=True)


def no_actor(error: Exception | None) -> EnvironmentStartError:
    """Return the error for an actor that was lost before a task began.

    Args:
        error: What Ray raised.
    """
    return EnvironmentStartError(
        f"the actor that was to hold the environment was lost before the task began: {_said(error)}"
    )


def _said(error: Exception | None) -> str:
    """Return what Ray says, in a line: it tells of many things that are none of a user's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("class_name:", "actor_id:", "namespace:", "pid:", "ip:"))]
    return " ".join(told[:3]).partition(" Some common causes ")[0][:300] or type(error).__name__

"""What those who look on are told of a script."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from code_execution.result import ExecutionResult
from code_execution.script_run import Limits, Tools
from environments.base import BaseEnvironment
from environments.errors import DENIED
from environments.observation.fitting import byte_size
from environments.observation.observation import UNOBSERVED, Facts, Observation
from environments.observation.watched import interruption


def observed_script(
    env: BaseEnvironment,
    code: str,
    limits: Limits,
    tools: Tools | None,
    argv: Sequence[str],
    record: str | os.PathLike[str] | None,
) -> Observation:
    """Return what tells of a script that is about to be run.

    Args:
        env: Where it is to run.
        code: Its source.
        limits: How it is to be run.
        tools: Those it was given; None is `hermes_tools`.
        argv: Its arguments.
        record: One more file to record it to.

    Raises:
        SettingsError: That cannot be written.
    """

    def facts() -> Facts:
        return {
            "script": code,
            "arguments": list(argv),
            "mode": limits.mode,
            "transport": limits.transport,
            "timeout": limits.timeout if math.isfinite(limits.timeout) else None,
            "max_tool_calls": limits.max_tool_calls,
            "tools": None if tools is None else sorted(tools),
        }

    return env.observation.observed("script", code, facts, record)


def came_of_script(seen: Observation, result: ExecutionResult) -> ExecutionResult:
    """Tell what came of a script, and return it."""
    if seen is not UNOBSERVED:
        denied = result.exit_code is None and (result.error or "").startswith(DENIED)
        seen.tell(
            status="denied" if denied else interruption() if result.status == "interrupted" else result.status,
            exit_code=result.exit_code,
            output=result.output,
            stderr=result.stderr or None,
            output_bytes=byte_size(result.output),
            error=result.error,
            tool_calls=result.tool_calls_made,
            ran=result.duration_seconds,
        )
    return result

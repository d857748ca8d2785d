"""Our environments behind hermes-agent's terminal, file and code tools, see docs/plugs/hermes_agent.md."""

from __future__ import annotations

import contextlib
import math
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest.mock import patch

from tools import code_execution_tool, terminal_tool
from tools.environments.base import BaseEnvironment
from tools.terminal_tool import cleanup_all_environments
from tools.tool_output_limits import get_max_bytes

from environments import create_environment
from hermes_env.plugs.hermes_agent_interrupts import attended
from hermes_env.plugs.hermes_agent_scripts import execute_code

_ALL = 2**31 - 1
"""Bytes of output to keep for the tools themselves, which take it apart."""


def install(**settings: object) -> ExitStack:
    """Have hermes-agent work in our environments from now on, on the backend that it is configured for.

    What it has open is cleaned up, both now and at the end.

    Args:
        settings: Settings of ours, over those that its configuration and ours have.

    Returns:
        What undoes it: by its `close()`, or as a context manager.
    """

    def create(
        env_type: str,
        image: str,
        cwd: str,
        timeout: int,
        ssh_config: dict[str, Any] | None = None,
        container_config: dict[str, Any] | None = None,
        local_config: dict[str, Any] | None = None,
        task_id: str = "default",
        host_cwd: str | None = None,
    ) -> HermesEnvironment:
        asked: dict[str, object] = {"image": image or None, "login_shell": True, "task_id": task_id}
        asked |= {f"ssh_{name}": (ssh_config or {}).get(name) or None for name in ("host", "user", "port", "key")}
        asked["container_persistent"] = (container_config or {}).get("container_persistent")
        given = {name: value for name, value in {**asked, **settings}.items() if value is not None}
        # hermes-agent tells from the name of the class where files are.
        return type(f"Hermes_{env_type}", (HermesEnvironment,), {})(env_type, cwd, timeout, given)

    undo = ExitStack()
    cleanup_all_environments()
    undo.callback(cleanup_all_environments)
    undo.enter_context(patch.object(terminal_tool, "_create_environment", create))
    undo.enter_context(patch.object(code_execution_tool, "execute_code", execute_code))
    return undo


class HermesEnvironment(BaseEnvironment):
    """An environment of ours as hermes-agent's tools know theirs.

    What the model types runs in the session. The tools' own commands run beside it, with its exports, as there.
    """

    def __init__(self, backend: str, cwd: str, timeout: int, settings: dict[str, object]) -> None:
        super().__init__(cwd, timeout)
        self._persistent = bool(settings.get("container_persistent"))
        self.ours = create_environment(backend, **{"cwd": "/", **settings})
        self.cwd = self.ours.execute(f"cd {self._quote_cwd_for_cd(cwd or '~')} 2>/dev/null || cd").cwd

    def execute(
        self,
        command: str,
        cwd: str = "",
        *,
        timeout: int | None = None,
        stdin_data: str | None = None,
        rewrite_compound_background: bool = True,
        bounded_capture: bool = False,
    ) -> dict[str, Any]:
        """Run a command, and return its `output` and `returncode`. `bounded_capture` says that a model typed it."""
        command, password = self._prepare_command(command)
        stdin = None if password is None and stdin_data is None else (password or "") + (stdin_data or "")
        limit = timeout or self.timeout or math.inf
        how: dict[str, Any] = {"cwd": cwd or self.cwd, "timeout": limit, "stdin": stdin}
        if bounded_capture:
            run, how["max_output_bytes"] = self.ours.execute, get_max_bytes()
        else:
            run, how["max_output_bytes"] = partial(self.ours.execute_oneshot, session_env=True), _ALL
        result = attended(lambda end: run(command, interrupt=end, **how))
        if bounded_capture:
            self.cwd = result.cwd or self.cwd
        output = result.captured.with_count()
        if result.timed_out:
            output += f"\n[Command timed out after {limit}s]"
        elif result.interrupted:
            output += "\n[Command interrupted]"
        return {"output": output, "returncode": result.exit_code}

    def cleanup(self) -> None:
        """End everything, and remove the target unless it is kept."""
        with contextlib.suppress(AttributeError):  # it could not even be made
            self.ours.cleanup()

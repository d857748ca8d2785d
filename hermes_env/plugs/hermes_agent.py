"""Runs hermes-agent's terminal, file and code tools in our environments, see docs/agents.md."""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from typing import Any, TypeVar
from unittest.mock import patch

from agent.redact import redact_sensitive_text
from model_tools import handle_function_call
from tools import code_execution_tool, terminal_tool
from tools.approval import check_execute_code_guard
from tools.code_execution_tool import SANDBOX_ALLOWED_TOOLS
from tools.environments.base import BaseEnvironment, touch_activity_if_due
from tools.interrupt import clear_current_thread_interrupt, is_interrupted
from tools.registry import registry, tool_error
from tools.thread_context import propagate_context_to_thread
from tools.tool_output_limits import get_max_bytes

from code_execution import ExecutionResult, tools_from_schemas
from code_execution import execute_code as run_script
from environments import create_environment

_ALL = 2**31 - 1
"""Bytes of output for the tools' own commands: unlimited, because the tools parse the output."""
_PERIOD = 0.05
"""Seconds between checks of hermes-agent's interrupt, a flag of the calling thread."""
_Answer = TypeVar("_Answer")


class _Environment(BaseEnvironment):
    """An environment for hermes-agent's tools.

    The model's commands run in the session. The tools' own commands run outside the session, with its exports, as in
    hermes-agent.
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
        # `bounded_capture` marks a command of the model.
        command, password = self._prepare_command(command)
        stdin = None if password is None and stdin_data is None else (password or "") + (stdin_data or "")
        limit = timeout or self.timeout or math.inf
        how: dict[str, Any] = {"cwd": cwd or self.cwd, "timeout": limit, "stdin": stdin}
        if bounded_capture:
            run, how["max_output_bytes"] = self.ours.execute, get_max_bytes()
        else:
            run, how["max_output_bytes"] = partial(self.ours.execute_oneshot, session_env=True), _ALL
        result = _interruptible(lambda end: run(command, interrupt=end, **how))
        if bounded_capture:
            self.cwd = result.cwd or self.cwd
        output = result.captured.with_count()
        if result.timed_out:
            output += f"\n[Command timed out after {limit}s]"
        elif result.interrupted:
            output += "\n[Command interrupted]"
        return {"output": output, "returncode": result.exit_code}

    def cleanup(self) -> None:
        with contextlib.suppress(AttributeError):  # `create_environment` failed
            self.ours.cleanup()


def _interruptible(work: Callable[[threading.Event], _Answer]) -> _Answer:
    """Run blocking work, and interrupt it when hermes-agent interrupts the calling thread.

    Args:
        work: The work, run in a thread. Receives an event; the set event is the interrupt.

    Returns:
        The result of the work.

    Raises:
        BaseException: The error of the work.
    """
    end, done = threading.Event(), Future[_Answer]()

    def run() -> None:
        try:
            done.set_result(work(end))
        except BaseException as error:
            done.set_exception(error)

    worker = threading.Thread(target=run, name="hermes-plug", daemon=True)
    worker.start()
    activity = dict.fromkeys(("start", "last_touch"), time.monotonic())
    try:
        while worker.is_alive():
            worker.join(_PERIOD)
            touch_activity_if_due(activity, "running in the environment")
            if is_interrupted():
                end.set()
    except BaseException:
        end.set()
        raise
    return done.result()


_INNER = {
    "_create_environment": terminal_tool,
    "_get_env_config": terminal_tool,
    "_docker_has_host_access": terminal_tool,
    "_get_or_create_env": code_execution_tool,
    "_TERMINAL_BLOCKED_PARAMS": code_execution_tool,
    "_prepare_command": _Environment,
    "_quote_cwd_for_cd": _Environment,
}
"""Private names of hermes-agent used by the plug, with the module or class of each."""


def install(**settings: object) -> ExitStack:
    """Run hermes-agent's tools in our environments from now on, on the backend of hermes-agent's configuration.

    Cleans up hermes-agent's open environments now, and again at the end.

    Args:
        settings: Settings of `create_environment`, which override hermes-agent's configuration and ours.

    Returns:
        A stack for the removal of the plug, by `close()` or as a context manager.

    Raises:
        ImportError: This release of hermes-agent lacks a function needed by the plug. The plug is not installed.
    """
    if moved := [name for name, place in _INNER.items() if not hasattr(place, name)]:
        raise ImportError(
            f"hermes-agent {version('hermes-agent')} has moved {', '.join(moved)}, needed by this plug: install "
            "hermes-agent 0.19, or use our built-in tools instead"
        )

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
    ) -> _Environment:
        asked: dict[str, object] = {"image": image or None, "login_shell": True, "task_id": task_id}
        asked |= {f"ssh_{name}": (ssh_config or {}).get(name) or None for name in ("host", "user", "port", "key")}
        asked["container_persistent"] = (container_config or {}).get("container_persistent")
        given = {name: value for name, value in {**asked, **settings}.items() if value is not None}
        # hermes-agent derives the place of files from the name of the class.
        return type(f"Hermes_{env_type}", (_Environment,), {})(env_type, cwd, timeout, given)

    undo = ExitStack()
    terminal_tool.cleanup_all_environments()
    undo.callback(terminal_tool.cleanup_all_environments)
    undo.enter_context(patch.object(terminal_tool, "_create_environment", create))
    undo.enter_context(patch.object(code_execution_tool, "execute_code", execute_code))
    return undo


def execute_code(code: str, task_id: str | None = None, enabled_tools: Iterable[str] | None = None) -> str:
    """Run a script like hermes-agent's own `execute_code`, with the same tools, limits and approvals."""
    if not code or not code.strip():
        return tool_error("No code provided.")
    config, is_open = _inner("_get_env_config")(), _inner("_docker_has_host_access")
    guard = check_execute_code_guard(code, config["env_type"], has_host_access=is_open(config))
    if not guard.get("approved"):
        return _answer(ExecutionResult("error", "", 0, 0.0, None, error=guard.get("message") or "not approved"))
    if guard.get("user_approved"):
        clear_current_thread_interrupt()
    names = SANDBOX_ALLOWED_TOOLS & set(enabled_tools or ()) or SANDBOX_ALLOWED_TOOLS
    schemas = [schema for name in sorted(names) if (schema := registry.get_schema(name))]
    turn, call = threading.Lock(), propagate_context_to_thread(handle_function_call)

    def handle(name: str, arguments: dict[str, Any]) -> object:
        for blocked in _inner("_TERMINAL_BLOCKED_PARAMS") if name == "terminal" else ():
            arguments.pop(blocked, None)
        with turn:
            return call(name, arguments, task_id=task_id)

    try:
        env, _ = _inner("_get_or_create_env")(task_id or "default")
        tools = tools_from_schemas(schemas, handle)
        return _answer(
            _interruptible(lambda end: run_script(code, env=env.ours, tools=tools, interrupt=end, session_env=True))
        )
    except Exception as error:
        return _answer(ExecutionResult("error", "", 0, 0.0, None, error=str(error)))


def _inner(name: str) -> Any:  # noqa: ANN401
    return getattr(_INNER[name], name)


def _answer(result: ExecutionResult) -> str:
    fields = {name: value for name, value in result.to_dict().items() if name not in ("tool_calls", "stderr", "images")}
    fields["output"] = redact_sensitive_text(result.output, code_file=True)
    return json.dumps({name: value for name, value in fields.items() if value is not None}, ensure_ascii=False)

"""Runs hermes-agent's terminal, file and code tools in our environments, see docs/agents.md."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from importlib.metadata import version
from typing import Any
from unittest.mock import patch

from agent.redact import redact_sensitive_text
from model_tools import handle_function_call
from tools import code_execution_tool, terminal_tool
from tools.approval import check_execute_code_guard
from tools.code_execution_tool import SANDBOX_ALLOWED_TOOLS
from tools.interrupt import clear_current_thread_interrupt
from tools.registry import registry, tool_error
from tools.thread_context import propagate_context_to_thread

from code_execution import ExecutionResult, tools_from_schemas
from code_execution import execute_code as run_script
from hermes_env.plugs.hermes_agent_environment import HermesAgentEnvironment, interruptible

_INNER = {
    "_create_environment": terminal_tool,
    "_get_env_config": terminal_tool,
    "_docker_has_host_access": terminal_tool,
    "_get_or_create_env": code_execution_tool,
    "_TERMINAL_BLOCKED_PARAMS": code_execution_tool,
    "_prepare_command": HermesAgentEnvironment,
    "_quote_cwd_for_cd": HermesAgentEnvironment,
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
    ) -> HermesAgentEnvironment:
        asked: dict[str, object] = {"image": image or None, "login_shell": True, "task_id": task_id}
        asked |= {f"ssh_{name}": (ssh_config or {}).get(name) or None for name in ("host", "user", "port", "key")}
        asked["container_persistent"] = (container_config or {}).get("container_persistent")
        given = {name: value for name, value in {**asked, **settings}.items() if value is not None}
        # hermes-agent derives the place of files from the name of the class.
        return type(f"Hermes_{env_type}", (HermesAgentEnvironment,), {})(env_type, cwd, timeout, given)

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
            interruptible(lambda end: run_script(code, env=env.ours, tools=tools, interrupt=end, session_env=True))
        )
    except Exception as error:
        return _answer(ExecutionResult("error", "", 0, 0.0, None, error=str(error)))


def _inner(name: str) -> Any:  # noqa: ANN401
    return getattr(_INNER[name], name)


def _answer(result: ExecutionResult) -> str:
    fields = {name: value for name, value in result.to_dict().items() if name not in ("tool_calls", "stderr", "images")}
    fields["output"] = redact_sensitive_text(result.output, code_file=True)
    return json.dumps({name: value for name, value in fields.items() if value is not None}, ensure_ascii=False)

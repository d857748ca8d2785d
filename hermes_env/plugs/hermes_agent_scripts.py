"""Our `execute_code` as hermes-agent's tool of that name, see docs/plugs/hermes_agent.md."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import Any

from agent.redact import redact_sensitive_text
from model_tools import handle_function_call
from tools.approval import check_execute_code_guard
from tools.code_execution_tool import _TERMINAL_BLOCKED_PARAMS, SANDBOX_ALLOWED_TOOLS, _get_or_create_env
from tools.interrupt import clear_current_thread_interrupt
from tools.registry import registry, tool_error
from tools.terminal_tool import _docker_has_host_access, _get_env_config
from tools.thread_context import propagate_context_to_thread

from code_execution import ExecutionResult, tools_from_schemas
from code_execution import execute_code as run_script
from hermes_env.plugs.hermes_agent_interrupts import attended


def execute_code(code: str, task_id: str | None = None, enabled_tools: Iterable[str] | None = None) -> str:
    """Run a script as hermes-agent's own `execute_code` does, with the same tools, limits and approvals."""
    if not code or not code.strip():
        return tool_error("No code provided.")
    config = _get_env_config()
    guard = check_execute_code_guard(code, config["env_type"], has_host_access=_docker_has_host_access(config))
    if not guard.get("approved"):
        return _told(ExecutionResult("error", "", 0, 0.0, None, error=guard.get("message") or "not approved"))
    if guard.get("user_approved"):
        clear_current_thread_interrupt()
    names = SANDBOX_ALLOWED_TOOLS & set(enabled_tools or ()) or SANDBOX_ALLOWED_TOOLS
    schemas = [schema for name in sorted(names) if (schema := registry.get_schema(name))]
    turn, call = threading.Lock(), propagate_context_to_thread(handle_function_call)

    def handle(name: str, arguments: dict[str, Any]) -> object:
        for blocked in _TERMINAL_BLOCKED_PARAMS if name == "terminal" else ():
            arguments.pop(blocked, None)
        with turn:
            return call(name, arguments, task_id=task_id)

    try:
        env, _ = _get_or_create_env(task_id or "default")
        tools = tools_from_schemas(schemas, handle)
        return _told(attended(lambda end: run_script(code, env=env.ours, tools=tools, interrupt=end, session_env=True)))
    except Exception as error:
        return _told(ExecutionResult("error", "", 0, 0.0, None, error=str(error)))


def _told(result: ExecutionResult) -> str:
    told = {name: value for name, value in result.to_dict().items() if name not in ("tool_calls", "stderr", "images")}
    told["output"] = redact_sensitive_text(result.output, code_file=True)
    return json.dumps({name: value for name, value in told.items() if value is not None}, ensure_ascii=False)

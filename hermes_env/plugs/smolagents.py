"""An executor for smolagents' code agents on every backend, see docs/agents.md."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from smolagents import serialization
from smolagents.local_python_executor import CodeOutput, PythonExecutor
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.utils import AgentError

from code_execution import ExecutionResult, PythonSession
from environments import BaseEnvironment

_FINAL_ANSWER = "final_answer"
_SET_UP = """
def _set_up(serialization, variables, new, tools):
    import json
    import types

    module = types.ModuleType("smolagents_serialization")
    exec(serialization, module.__dict__)
    pack, unpack = module.SafeSerializer.to_json_safe, module.SafeSerializer.from_json_safe

    def function(name):
        def tool(*args, **kwargs):
            import hermes_tools

            packed = {key: pack(value) for key, value in kwargs.items()}
            answer = getattr(hermes_tools, name)(*map(pack, args), **packed)
            if "value" not in answer:
                raise hermes_tools.ToolError(answer["error"])
            if name == "final_answer":
                raise SystemExit
            return unpack(answer["value"])

        tool.__name__ = name
        return tool

    for name, value in json.loads(variables).items():
        if name in new or name not in globals():
            globals()[name] = unpack(value)
    globals().update((name, function(name)) for name in tools)
"""
"""Code for the target, for Python 3.8 or later. Sets new variables, and variables lost with an earlier Python."""


class HermesExecutor(PythonExecutor):
    """Runs the code of a `CodeAgent` in a persistent Python: `CodeAgent(..., executor=HermesExecutor(env))`.

    Variables persist between steps, and between runs of the agent. Tools and managed agents run in this process; the
    code calls them over the session's connection. `cleanup`, also called by the agent, ends the Python.

    Args:
        env: The environment, cleaned up by the caller.
        options: Arguments of `PythonSession`: `timeout` in seconds and `max_tool_calls` for each step, `mode`,
            `session_env`.

    Raises:
        SettingsError: As `PythonSession`, with its other errors.
    """

    def __init__(self, env: BaseEnvironment, **options: Any) -> None:  # noqa: ANN401
        self.session = PythonSession(env, **{"tools": {}, "mcp_servers": False, **options})
        self._variables: dict[str, object] = {}
        self._new: set[str] = set()
        self._tools: dict[str, Callable[..., object]] = {}
        self._answers: list[object] = []
        self._is_set_up = False

    def send_variables(self, variables: Mapping[str, Any]) -> None:
        self._variables |= {name: _pack(value) for name, value in variables.items()}
        self._new |= variables.keys()
        self._is_set_up = False

    def send_tools(self, tools: Mapping[str, Callable[..., Any]]) -> None:
        # The next step can call these tools and managed agents, by name, and no others.
        self._tools = {name: self._handler(name, tool) for name, tool in tools.items()}
        self._is_set_up = False

    def _handler(self, name: str, tool: Callable[..., Any]) -> Callable[..., object]:
        unpack = serialization.SafeSerializer.from_json_safe

        def handle(*args: object, **kwargs: object) -> object:
            value = tool(*map(unpack, args), **{key: unpack(given) for key, given in kwargs.items()})
            if name == _FINAL_ANSWER:
                self._answers.append(value)
                return {"value": None}
            return {"value": _pack(value)}

        handle.__doc__ = getattr(tool, "description", None)
        return handle

    def __call__(self, code_action: str) -> CodeOutput:
        """Run the code of one step.

        Returns:
            The printed text as `logs`, and as `output` the final answer, or the text of the last expression's value.

        Raises:
            AgentError: The code failed, timed out or was denied. The message contains the printed text.
            EnvironmentLostError: As `PythonSession.execute`, with its other errors.
        """
        if not self._is_set_up:
            self._set_up()
        self._answers.clear()
        result = self.session.execute(code_action, tools=self._tools)
        self._is_set_up = result.note is None  # a note reports the loss of the Python
        logs = "\n".join(filter(None, (result.output, result.note)))
        if self._answers:
            return CodeOutput(output=self._answers[-1], logs=logs, is_final_answer=True)
        if result.status != "success":
            raise _error(logs)
        return CodeOutput(output=result.value, logs=logs, is_final_answer=False)

    def _set_up(self) -> None:
        source = inspect.getsource(serialization)
        given = (source, json.dumps(self._variables), sorted(self._new), sorted(self._tools))
        code = f"{_SET_UP}\n_set_up{given!r}"
        result: ExecutionResult = self.session.execute(code, tools=self._tools, before_script=lambda _: True)
        if result.status != "success":
            raise _error(result.output)
        self._new.clear()
        self._is_set_up = True

    def cleanup(self) -> None:
        """End the Python. Later steps are refused. The environment stays."""
        self.session.close()


def _pack(value: object) -> object:
    return serialization.SafeSerializer.to_json_safe(value)


def _error(message: str) -> AgentError:
    return AgentError(message, AgentLogger(LogLevel.OFF))  # the agent logs it

"""Results of a model's tool calls for a task with a container."""

from __future__ import annotations

import json

from targets.default_task import env
from targets.engines import PYTHON_IMAGE

from environments import BaseEnvironment, tasks
from hermes_env.schemas import handle_function_call

__all__ = ["env"]


def call_tool(name: str, arguments: dict[str, str], task_id: str = "default") -> dict[str, str]:
    result: dict[str, str] = json.loads(handle_function_call(name, arguments, task_id=task_id))
    return result


def test_a_task_may_have_a_container_of_its_own(env: BaseEnvironment) -> None:
    tasks.get_environment("contained", env="docker", image=PYTHON_IMAGE, cwd="/")
    tasks.register_task_settings("contained too", backend="docker", image=PYTHON_IMAGE, cwd="/")
    here = call_tool("terminal", {"command": "hostname"})["output"]
    names = {
        call_tool("terminal", {"command": "hostname"}, task_id=task)["output"]
        for task in ("contained", "contained too")
    }
    assert len(names | {here}) == 3
    code = "from hermes_tools import terminal; print(terminal('hostname')['output'], end='')"
    assert call_tool("execute_code", {"code": code}, task_id="contained")["output"] in names
    tasks.clear_task_settings("contained too")

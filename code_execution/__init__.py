"""Run a Python script that calls tools, on any machine; only printed output comes back.

result = execute_code("from hermes_tools import terminal; print(terminal('uname')['output'])")
"""

import runpy
from pathlib import Path

# Read by path, because an unrelated package may be installed as `environments`.
runpy.run_path(str(Path(__file__).parents[1] / "environments" / "name_conflict.py"))["check_names"]()

from code_execution.execute import execute_code
from code_execution.mcp import mcp_tools
from code_execution.python_session import PythonSession
from code_execution.result import ExecutionResult
from code_execution.settings import CodeExecutionSettings
from code_execution.skills import load_skill
from rpc import ToolCall, tools_from_schemas

__all__ = [
    "CodeExecutionSettings",
    "ExecutionResult",
    "PythonSession",
    "ToolCall",
    "execute_code",
    "load_skill",
    "mcp_tools",
    "tools_from_schemas",
]

"""Running a Python script that calls tools, on any machine. Only what it prints comes back.

result = execute_code("from hermes_tools import terminal; print(terminal('uname')['output'])")
"""

import runpy
from pathlib import Path

# Read by its path, as `environments` may be what is not ours.
runpy.run_path(str(Path(__file__).parents[1] / "environments" / "own_names.py"))["check_names"]()

from code_execution.execute import execute_code
from code_execution.mcp import mcp_tools
from code_execution.passthrough import load_skill
from code_execution.python_session import PythonSession
from code_execution.result import ExecutionResult
from code_execution.settings import CodeExecutionSettings
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

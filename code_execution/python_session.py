"""`PythonSession`: a Python process that stays in an environment and keeps variables between scripts."""

from __future__ import annotations

from typing import Unpack

from code_execution.execute import ScriptOptions, execute_code
from code_execution.result import ExecutionResult
from code_execution.session import ScriptSession


class PythonSession(ScriptSession):
    """A Python process that stays in an environment, and runs script after script in one namespace.

    Variables and imports of a script are available to the next script. Tools, limits, approvals, records and interrupts
    apply to each script as in `execute_code`. A script that reaches the time-out or is interrupted first gets a
    `KeyboardInterrupt`. After 5 s the Python is ended, and the next script starts a new one. Processes and threads left
    by a script continue until the session is closed; their output between scripts is dropped.

    The Python starts with the first script. `close`, the end of the `with` block, and cleanup of the environment end
    the Python. A session is thread-safe; scripts run one at a time.

    Args:
        env: Environment for the Python.
        tools: Tool name to any Python function; None is `hermes_tools`, an empty mapping means no tools.
        timeout: Seconds for each script; None is the setting, 300 by default.
        max_tool_calls: Limit of tool calls of each script; None is the setting, 50 by default.
        mode: As for `execute_code`.
        tool_errors: As for `execute_code`.
        session_env: As for `execute_code`; the variables are read when the Python starts.
        mcp_servers: As for `execute_code`.

    Raises:
        SettingsError: The settings are invalid.
        TypeError: `env` is no environment.
        ValueError: An argument has a value that is not allowed.
    """

    def execute(self, code: str, **options: Unpack[ScriptOptions]) -> ExecutionResult:
        """Run a script in the session's Python.

        Args:
            code: The script's source. If the last statement is an expression, `value` of the result is its `repr`, and
                `images` are the open figures of matplotlib.
            options: Options of `execute_code`, except `env`, `mode`, `transport` and `session_env`: `tools`, `timeout`,
                `max_tool_calls`, `interrupt`, `on_output`, `on_tool_call`, `tool_errors`, `argv`, `mcp_servers`,
                `before_script`, `before_tool_call`, `record`. The session's values are the defaults.

        Returns:
            The result. `note` is set when the variables of earlier scripts are lost. The status is `error`, without a
            run, if the session was closed, or if a tool called by the session's own script called this.

        Raises:
            UnsupportedError: The environment has no duplex stream.
            EnvironmentStartError: As for `execute_code`, like all further errors.
        """
        return execute_code(code, session=self, **options)

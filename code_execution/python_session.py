"""`PythonSession`: a Python that stays in an environment, where variables last from one script to the next."""

from __future__ import annotations

from typing import Unpack

from code_execution.execute import ScriptOptions, execute_code
from code_execution.result import ExecutionResult
from code_execution.session import ScriptSession


class PythonSession(ScriptSession):
    """A Python that stays in an environment, and runs one script after another in one namespace.

    What a script has defined and imported is there for the next one. Tools, limits, approvals, records and interrupts
    hold for each script as in `execute_code`. A script that runs out of time, or is interrupted, gets a
    `KeyboardInterrupt` first; if that does not end it in 5 s, the Python is ended, and the next script begins in a new
    one. Processes and threads that a script leaves go on until the session is closed; what they print while no script
    runs is dropped.

    The Python starts with the first script. It ends with `close`, with the `with` block, and with the environment.
    A session is safe to use from several threads; its scripts take turns.

    Args:
        env: Where it runs.
        tools: Tool name to any Python function; None is `hermes_tools`, an empty mapping means no tools.
        timeout: Seconds that each script has; None is the setting, 300 by default.
        max_tool_calls: How many tool calls each script may make; None is the setting, 50 by default.
        mode: As for `execute_code`.
        tool_errors: Likewise.
        session_env: Likewise, as the shell's session is when the Python starts.
        mcp_servers: Likewise.

    Raises:
        SettingsError: The settings are not in order.
        TypeError: The environment is none.
        ValueError: An argument has a value that is not allowed.
    """

    def execute(self, code: str, **options: Unpack[ScriptOptions]) -> ExecutionResult:
        """Run a script in the session's Python.

        Args:
            code: The script's source. If its last statement is an expression, `value` of the result is how that is
                written, and `images` are the figures that matplotlib has open.
            options: As for `execute_code`, but for `env`, `mode`, `transport` and `session_env`, which are the
                session's: `tools`, `timeout`, `max_tool_calls`, `interrupt`, `on_output`, `on_tool_call`,
                `tool_errors`, `argv`, `mcp_servers`, `before_script`, `before_tool_call`, `record`. One that is not
                given is the session's own.

        Returns:
            The result. Its `note` says so when the variables of the scripts before are gone. Its status is `error`, and
            nothing was run, if the session was closed, or if a tool that its own script calls has called this.

        Raises:
            UnsupportedError: The environment has no stream that goes both ways.
            EnvironmentStartError: As `execute_code` does, and all its other errors.
        """
        return execute_code(code, session=self, **options)

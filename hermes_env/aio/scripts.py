"""Asynchronous `execute_code` and `PythonSession`: tools and callbacks may be coroutine functions."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from code_execution import ExecutionResult, PythonSession, execute_code
from code_execution.execute import ScriptOptions
from code_execution.limits import TransportName
from code_execution.settings import Mode
from environments import BaseEnvironment
from hermes_env.aio.calls import awaited_on_callers_loop, in_thread
from hermes_env.aio.environment import AsyncContext, AsyncEnvironment, Hook, as_coroutine
from rpc import ToolErrors


async def aexecute_code(
    code: str,
    *,
    env: AsyncEnvironment | BaseEnvironment | None = None,
    tools: Mapping[str, Callable[..., object]] | None = None,
    timeout: float | None = None,
    max_tool_calls: int | None = None,
    mode: Mode | None = None,
    transport: TransportName = "auto",
    interrupt: threading.Event | None = None,
    on_output: Hook | None = None,
    on_tool_call: Hook | None = None,
    tool_errors: ToolErrors | None = None,
    argv: Sequence[str] = (),
    session_env: bool = False,
    mcp_servers: bool | None = None,
    before_script: Hook | None = None,
    before_tool_call: Hook | None = None,
    record: str | os.PathLike[str] | None = None,
    session: AsyncPythonSession | PythonSession | str | bool | None = None,
) -> ExecutionResult:
    """Run a Python script in an environment, see `code_execution.execute_code`: the same arguments, awaited.

    The event loop of the calling task awaits coroutine functions among `tools` and callbacks, so they may use the
    task's clients, locks and queues. Several run side by side. A tool may await calls of the same environment.
    Cancellation of the task first ends the script, its tools and their processes. Tools still running at the end of
    the script are cancelled.

    Returns:
        The result, as of `execute_code`.

    Raises:
        EnvironmentStartError: As `execute_code` does, and all its other errors.
    """
    given = dict(locals())
    given["env"] = env.sync if isinstance(env, AsyncEnvironment) else env
    given["session"] = python = session.sync if isinstance(session, AsyncPythonSession) else session
    if isinstance(python, PythonSession) and tools is None:
        given["tools"] = python.tools

    def run() -> ExecutionResult:
        # Wrapped on this thread: its context has the caller's loop, and the threads that call tools do not have it.
        for name in ("on_output", "on_tool_call", "before_script", "before_tool_call"):
            given[name] = given[name] and awaited_on_callers_loop(given[name])
        if given["tools"]:
            given["tools"] = {name: awaited_on_callers_loop(tool) for name, tool in given["tools"].items()}
        return execute_code(**given)

    return await in_thread(run, "scripts")


class AsyncPythonSession(AsyncContext):
    """The asynchronous `PythonSession`: one Python process runs scripts one after another in one namespace.

    async with AsyncEnvironment("docker") as env, AsyncPythonSession(env) as python:
        await python.execute("x = 1")

    Args:
        env: The environment of the Python process.
        options: As for `PythonSession`. Its tools may be coroutine functions, see `aexecute_code`.
    """

    def __init__(self, env: AsyncEnvironment | BaseEnvironment, **options: Any) -> None:  # noqa: ANN401
        self.sync = PythonSession(env.sync if isinstance(env, AsyncEnvironment) else env, **options)
        """The synchronous session."""

    async def execute(self, code: str, **options: Unpack[ScriptOptions]) -> ExecutionResult:
        """Run a script, see `PythonSession.execute`. Cancellation first interrupts the script."""
        return await aexecute_code(code, session=self, **options)

    reset = as_coroutine(PythonSession.reset)
    close = as_coroutine(PythonSession.close, to_end=True)

    async def _end(self) -> None:
        await self.close()

"""Asynchronous classes have the names and parameters of the blocking ones."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys

import pytest

from code_execution import PythonSession, execute_code
from environments import BaseEnvironment, EnvironmentSession, Process, create_environment
from hermes_env.aio import AsyncEnvironment, AsyncProcess, AsyncPythonSession, AsyncSession, aexecute_code

FOR_BACKENDS = {"create", "list_targets", "probe", "settings_class"}
"""Names for backends."""
FOR_POOLS = {"close_sessions", "is_ready", "renew", "start_limits"}
"""Names for a pool."""
FOR_TOOLS = {"files", "internal", "model_view"}
"""Names for the rooms above, reached through `sync`."""
OF_A_SESSION = {"check_options", "check_process", "run_script"}
"""Names for `execute_code`."""
AT_ONCE = {"backend", "busy", "closed", "idle_seconds", "name", "pid", "pty", "running", "settings", "touch"}
"""Names that never wait."""


def public(kind: type) -> set[str]:
    annotated = {name for each in kind.__mro__ for name in vars(each).get("__annotations__", {})}
    return {name for name in {*dir(kind), *annotated} if not name.startswith("_")}


PAIRS = [
    (BaseEnvironment, AsyncEnvironment, FOR_BACKENDS | FOR_POOLS | FOR_TOOLS),
    (EnvironmentSession, AsyncSession, set()),
    (Process, AsyncProcess, {"add_done_callback", "observed_by"}),
    (PythonSession, AsyncPythonSession, OF_A_SESSION),
]


@pytest.mark.parametrize(("plain", "awaited", "left_out"), PAIRS)
def test_every_method_has_an_awaitable_one_with_the_same_parameters(
    plain: type, awaited: type, left_out: set[str]
) -> None:
    assert public(plain) - left_out - public(awaited) == set()
    for name in public(plain) & public(awaited) - AT_ONCE - {"stream"}:
        method, like = getattr(plain, name), getattr(awaited, name)
        if isinstance(method, property):
            assert isinstance(like, property)
            continue
        assert asyncio.iscoroutinefunction(like), name
        theirs, ours = inspect.signature(method).parameters, inspect.signature(like).parameters
        assert [str(each).replace('"', "") for each in theirs.values()] == [str(each) for each in ours.values()], name


def test_a_script_and_an_environment_have_the_same_arguments() -> None:
    theirs, ours = inspect.signature(execute_code).parameters, inspect.signature(aexecute_code).parameters
    assert list(theirs) == list(ours)
    assert [each.default for each in theirs.values()] == [each.default for each in ours.values()]
    theirs, ours = inspect.signature(create_environment).parameters, inspect.signature(AsyncEnvironment).parameters
    assert list(theirs) == list(ours)


def test_without_anyio_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["anyio"] = None
try:
    import hermes_env.aio
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingExtraError hermes_env.aio needs the extra aio (anyio is not installed): ")
    assert "[aio]" in done.stdout

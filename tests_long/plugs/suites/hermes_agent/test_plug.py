"""The plug with a hermes-agent that has moved inner functions, and the plug's removal."""

from __future__ import annotations

import pytest
from place import PLACE
from tools import code_execution_tool, terminal_tool

if PLACE.own:
    pytest.skip("it is about the plug", allow_module_level=True)

from hermes_env.plugs.hermes_agent import install


def test_a_function_that_was_moved_is_named_and_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = terminal_tool._create_environment, code_execution_tool.execute_code
    monkeypatch.delattr(terminal_tool, "_docker_has_host_access")
    monkeypatch.delattr(code_execution_tool, "_TERMINAL_BLOCKED_PARAMS")
    with pytest.raises(ImportError, match="has moved _docker_has_host_access, _TERMINAL_BLOCKED_PARAMS, needed"):
        install()
    assert (terminal_tool._create_environment, code_execution_tool.execute_code) == before


def test_its_own_tools_are_back_at_the_end() -> None:
    before = terminal_tool._create_environment, code_execution_tool.execute_code
    with install():
        assert terminal_tool._create_environment is not before[0]
        assert code_execution_tool.execute_code is before[1]  # the plug's replacement, already in place
    assert (terminal_tool._create_environment, code_execution_tool.execute_code) == before

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hermes_tools
from environments.base import BaseEnvironment
from hermes_tools import script_tools

TOOLS = ["terminal", "read_file", "write_file", "search_files", "patch", "web_search", "web_extract"]


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_shows_its_signature_and_docstring_without_the_environment(env: BaseEnvironment, name: str) -> None:
    for tool in (script_tools(env)[name], getattr(hermes_tools, name)):
        parameters = list(inspect.signature(tool).parameters)
        assert "env" not in [*parameters, *inspect.get_annotations(tool)]
        assert set(inspect.get_annotations(tool)) == {*parameters, "return"}
        assert inspect.signature(tool).return_annotation.endswith("Result")
        assert "Returns:\n    A dict with" in (inspect.getdoc(tool) or "")


def test_every_parameter_of_a_tool_is_described(env: BaseEnvironment) -> None:
    for tool in script_tools(env).values():
        for parameter in inspect.signature(tool).parameters:
            assert f"\n    {parameter}: " in (inspect.getdoc(tool) or "")


def test_script_tools_work_on_the_environment_they_were_made_for(env: BaseEnvironment, tmp_path: Path) -> None:
    tools = script_tools(env)
    assert list(tools) == TOOLS
    tools["write_file"]("a.txt", content="one\n")
    tools["patch"]("a.txt", "one", "two")
    assert tools["read_file"](path="a.txt")["content"] == "     1|two\n"
    assert tools["search_files"]("two")["total_count"] == 1
    assert tools["terminal"]("cat a.txt")["output"] == "two\n"
    with pytest.raises(ValueError, match="not available in a script"):
        tools["terminal"]("true", background=True)


def test_a_plain_program_uses_the_configured_environment(tmp_path: Path) -> None:
    program = (
        "from hermes_tools import terminal, read_file, write_file, search_files, patch\n"
        "write_file('a.txt', 'one\\n'); patch('a.txt', 'one', 'two'); terminal('mkdir sub; cd sub')\n"
        "print(terminal('pwd')['output'], read_file('../a.txt')['content'], search_files('two', path='..'))\n"
    )
    settings = {"TERMINAL_ENV": "local", "TERMINAL_CWD": str(tmp_path), "HERMES_HOME": str(tmp_path / "home")}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.stderr, result.returncode) == ("", 0)
    assert result.stdout.startswith(f"{tmp_path}/sub\n      1|two\n {{'matches': [{{'path': '../a.txt', 'line': 1")


def test_importing_the_tools_starts_and_reads_nothing() -> None:
    program = "import hermes_tools, sys; print([m for m in sys.modules if m.startswith('environments.')])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "environments.manager" not in result.stdout
    assert "environments.local" not in result.stdout


def test_importing_the_tools_brings_no_library_of_an_extra() -> None:
    program = "import hermes_tools, sys; print({'httpx', 'trafilatura', 'pypdf', 'ddgs', 'lxml'} & sys.modules.keys())"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "set()\n"

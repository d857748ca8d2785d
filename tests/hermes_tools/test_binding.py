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


def test_a_tool_shows_its_signature_and_docstring_without_the_environment(env: BaseEnvironment) -> None:
    for tool in (*script_tools(env).values(), *(getattr(hermes_tools, name) for name in TOOLS)):
        parameters = list(inspect.signature(tool).parameters)
        docstring = inspect.getdoc(tool) or ""
        assert "env" not in [*parameters, *inspect.get_annotations(tool)]
        assert set(inspect.get_annotations(tool)) == {*parameters, "return"}
        assert inspect.signature(tool).return_annotation.endswith("Result")
        assert "Returns:\n    A dict with" in docstring
        assert [parameter for parameter in parameters if f"\n    {parameter}: " not in docstring] == []


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
        "import hermes_tools, sys\n"
        "begun = {'environments.tasks', 'environments.local', 'httpx', 'trafilatura', 'pypdf', 'ddgs', 'lxml'}\n"
        "print(begun & sys.modules.keys())\n"
        "from hermes_tools import terminal, process, read_file, write_file, search_files, patch\n"
        "write_file('a.txt', 'one\\n'); patch('a.txt', 'one', 'two'); terminal('mkdir sub; cd sub')\n"
        "print(terminal('pwd')['output'], read_file('../a.txt')['content'], search_files('two', path='..'))\n"
        "print(process('wait', terminal('exit 3', background=True)['process_id'])['exit_code'])\n"
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
    imported, _, worked = result.stdout.partition("\n")
    assert imported == "set()", "importing the tools starts nothing and brings no library of an extra"
    assert worked.startswith(f"{tmp_path}/sub\n      1|two\n {{'matches': [{{'path': '../a.txt', 'line': 1")
    assert worked.endswith("\n3\n")

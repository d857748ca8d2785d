"""Scripts on each engine: imports, choice of Python, tool calls."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from targets.backends import bubblewrap, docker, docker_minimal, singularity, ssh
from targets.mcp_fixtures import server
from targets.named_secrets import ASKED, HIDDEN, SHOWN, VARIABLES

from code_execution import ExecutionResult, execute_code, mcp_tools
from environments import BaseEnvironment, UnsupportedError

__all__ = ["server"]


@pytest.fixture(params=(bubblewrap, docker, ssh, singularity), ids=lambda backend: backend.__name__)
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BaseEnvironment]:
    """Start a session in an empty directory without an active Python environment."""
    monkeypatch.setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    work = tmp_path / "work"
    work.mkdir()
    with request.param(work) as subject, subject.make() as env:
        made = env.execute('unset VIRTUAL_ENV CONDA_PREFIX PYTHONPATH; cd -- "$(mktemp -d -p .)" && pwd')
        assert made.ok, made.output
        yield env


def run_script(env: BaseEnvironment, code: str, **options: object) -> str:
    result: ExecutionResult = execute_code(textwrap.dedent(code), env=env, **options)  # type: ignore[arg-type]
    assert result.status == "success", result.output
    return result.output


def test_a_script_has_the_modules_programs_and_python_of_the_session(machine: BaseEnvironment) -> None:
    machine.execute("mkdir lib bin; echo ONE = 1 >single.py; echo TWO = 2 >lib/inside.py")
    machine.execute("printf '#!/bin/sh\\necho the tool\\n' >bin/tool; chmod +x bin/tool")
    made = machine.execute("python3 -m venv --without-pip venv && . venv/bin/activate; export PYTHONPATH=lib")
    assert made.ok, made.output
    machine.execute('echo WORD = 3 >"$(echo venv/lib/python3*/site-packages)/installed.py"; export PATH=$PWD/bin:$PATH')
    code = """
        import inside, installed, os, single, subprocess, sys
        print(single.ONE, inside.TWO, installed.WORD, sys.prefix == os.environ["VIRTUAL_ENV"] == os.getcwd() + "/venv")
        print(subprocess.run(["tool"], stdout=subprocess.PIPE).stdout)
        """
    assert run_script(machine, code) == "1 2 3 True\nb'the tool\\n'\n"
    code = """
        import importlib.util, os
        print([name for name in ("single", "inside", "installed") if importlib.util.find_spec(name)])
        print(os.environ.get("VIRTUAL_ENV", "").endswith("/venv"), "/venv/bin" in os.environ["PATH"])
        """
    assert run_script(machine, code, mode="strict") == "[]\nFalse False\n"


def test_tools_work_behind_a_broken_python_and_wherever_the_path_leads(machine: BaseEnvironment) -> None:
    machine.execute("mkdir -p bin; printf '#!/bin/sh\\nexit 3\\n' >bin/python; chmod +x bin/python")
    machine.execute("export VIRTUAL_ENV=$PWD; old=$PATH")
    for _ in range(2):
        code = "from hermes_tools import terminal; print(terminal('echo called')['output'])"
        assert run_script(machine, code) == "called\n\n"
        machine.execute("export PATH=/no/such/place")


@pytest.mark.parametrize("transport", ["relay", "file"])
def test_calls_and_errors_come_back_by_each_transport(machine: BaseEnvironment, transport: str) -> None:
    def double(number: int) -> int:
        return 2 * number

    code = "from hermes_tools import double\nprint([double(n) for n in range(3)])\ndouble(1, 2)\n"
    result = execute_code(code, env=machine, tools={"double": double}, transport=transport, tool_errors="raise")  # type: ignore[arg-type]
    assert result.output.startswith("[0, 2, 4]\n--- stderr ---\nTraceback (most recent call last):\n")
    assert '  File "script.py", line 3, in <module>\n    double(1, 2)' in result.stderr
    assert result.stderr.splitlines()[-1].startswith("hermes_tools.ToolError: double: wrong arguments: ")


def test_a_target_without_python_is_named_as_such(tmp_path: Path) -> None:
    with docker_minimal(tmp_path) as subject, subject.make() as env:
        for _ in range(2):
            with pytest.raises(UnsupportedError, match=r"'docker' has no Python 3.8 or later.*python3, python\)"):
                execute_code("print(1)", env=env)


def test_bytes_of_a_tool_are_a_file_in_the_container(server: MCPServer, tmp_path: Path) -> None:
    code = (
        "from hermes_tools import picture; found = picture(); print(found['size'], open(found['path'], 'rb').read(4))"
    )

    async def run(env: BaseEnvironment) -> ExecutionResult:
        async with Client(server) as client:
            return await anyio.to_thread.run_sync(partial(execute_code, code, env=env, tools=mcp_tools(client)))

    with docker(tmp_path) as subject, subject.make() as env:
        assert anyio.run(run, env).output == "68 b'\\x89PNG'\n"
        found = env.execute(f"ls {env.internal.scratch_directory()}/mcp-*.png")
    assert found.exit_code == 0  # and it stays until the environment goes


def test_no_secret_of_the_session_passes_or_is_shown(machine: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in VARIABLES.items())
    assert machine.execute(f"{exports}export HARMLESS=1").ok
    assert run_script(machine, ASKED) == "[]\n"
    asked = f"{ASKED}\nprint(os.environ['HARMLESS'])"
    assert run_script(machine, asked, session_env=True) == "[]\n1\n"
    shown = run_script(machine, SHOWN)
    assert [value for value in HIDDEN if value in shown] == []

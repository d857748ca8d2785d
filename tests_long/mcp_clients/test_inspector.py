"""The official inspector's command line, over stdio and HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from targets.mcp_server import TOKEN, WebServer

from mcp_clients import node

pytestmark = [pytest.mark.xdist_group("mcp clients"), pytest.mark.timeout(600)]  # the first run installs the inspector

Inspect = Callable[..., Any]


@pytest.fixture(params=["stdio", "HTTP"])
def inspect(
    request: pytest.FixtureRequest, web_server: WebServer, server_variables: dict[str, str], tmp_path: Path
) -> Inspect:
    """Run the inspector, and return its result or error, and its exit code."""
    if request.param == "HTTP":
        reached = [web_server.url, "--transport", "http", "--header", f"Authorization: Bearer {TOKEN}"]
    else:
        reached = [sys.executable, "-m", "hermes_env", "mcp", "--cwd", str(tmp_path)]
    words = [*node.program("mcp-inspector"), "--cli", *reached]
    variables = {**node.variables(server_variables), "HOME": str(tmp_path)}

    def run(method: str, *more: str) -> tuple[Any, int]:
        done = subprocess.run(
            [*words, "--method", method, "--format", "json", "--quiet", "--connect-timeout", "60000", *more],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        return json.loads(done.stdout or done.stderr), done.returncode

    return run


def test_the_tools_are_listed_without_a_complaint(inspect: Inspect) -> None:
    found, code = inspect("tools/list", "--strict")
    assert code == 0
    assert {"terminal", "execute_code", "read_file"} <= {tool["name"] for tool in found["result"]["tools"]}


def test_a_command_and_a_script_are_run(inspect: Inspect) -> None:
    found, code = inspect("tools/call", "--tool-name", "terminal", "--tool-arg", "command=echo there; exit 3")
    assert (found["result"]["structuredContent"], code) == ({"output": "there\n", "exit_code": 3, "error": None}, 0)
    script = json.dumps({"code": "from hermes_tools import terminal\nprint(terminal('echo $((6 * 7))')['output'])"})
    found, code = inspect("tools/call", "--tool-name", "execute_code", "--tool-args-json", script)
    assert (found["result"]["structuredContent"]["output"], code) == ("42\n\n", 0)


def test_errors_are_reported(inspect: Inspect) -> None:
    for words, told in (
        (["read_file", "--tool-arg", "path=not-there"], "no such file"),
        (["terminal", "--tool-arg", "nonsense=1"], "there is no 'nonsense'"),
        (["nothing"], "'nothing' not found"),
    ):
        found, code = inspect("tools/call", "--tool-name", *words)
        result = found.get("result")
        assert told in (result["structuredContent"]["error"] if result else found["error"]["message"]), words
        assert code == 5, words

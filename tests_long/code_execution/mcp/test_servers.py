"""The MCP servers of config.yaml, over stdio and HTTP: started for a script with calls, and ended with the script."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import psutil
import pytest
from targets.mcp_fixtures import Configure
from targets.processes import is_dead as is_gone
from targets.threads import running_threads

from code_execution import execute_code
from environments import BaseEnvironment
from environments.conformance.check import wait_until
from hermes_env.schemas.calls import answer_in
from hermes_env.schemas.toolset import Toolset


def test_a_script_calls_servers_over_stdio_and_http_beside_its_other_tools(
    env: BaseEnvironment,
    serve: Configure,
    stdio: dict[str, object],
    url: str,
    token: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKEN_OF_OURS", token)
    monkeypatch.setenv("SOME_API_KEY", "a key that is not the server's")
    variables = {"GIVEN": "${TOKEN_OF_OURS}!", "WITH_DEFAULT": "${NOT_SET_HERE:-x}y"}
    serve(
        ours={**stdio, "env": variables, "cwd": str(env.cwd)},
        **{"their-tools": {"url": url, "token_env": "TOKEN_OF_OURS", "tools": ["add"], "type": "http"}},
    )
    code = """
import json
from hermes_tools import ours_add, ours_variables, their_tools_add, write_file
import hermes_tools
print(ours_add(1), their_tools_add(2), hasattr(hermes_tools, "their_tools_fail"))
write_file("variables", json.dumps(ours_variables()))
"""
    result = execute_code(code, env=env)
    assert result.output == "3 4 False\n"
    seen = json.loads(env.read_bytes("variables"))
    assert (seen["GIVEN"], seen["WITH_DEFAULT"]) == (f"{token}!", "xy")
    assert "SOME_API_KEY" not in seen
    assert is_gone(int(seen["PID"]))
    assert [call.name for call in result.tool_calls][:2] == ["ours_add", "their_tools_add"]


def test_callers_tools_have_the_servers_tools_beside_them_on_request(
    env: BaseEnvironment, serve: Configure, http: dict[str, object]
) -> None:
    serve(ours={**http, "tools": ["add"]}, off={"command": "no-such-program", "enabled": False})
    code = "import hermes_tools; print([name for name in dir(hermes_tools) if 'add' in name], hermes_tools.ours_add(1))"
    tools = {"add_mine": lambda: 1}
    assert execute_code(code, env=env, tools=tools, mcp_servers=True).output == "['add_mine', 'ours_add'] 3\n"
    assert "has no 'ours_add'" in execute_code(code, env=env, tools=tools).output
    clash = execute_code(code, env=env, tools={"ours_add": lambda: 1}, mcp_servers=True)
    assert "would be 'ours_add' in the script, and so is another tool" in str(clash.error)


def test_a_server_that_refuses_the_credentials_is_an_error_without_them(
    env: BaseEnvironment, serve: Configure, url: str
) -> None:
    serve(ours={"url": f"{url}?key=nobody-is-to-know", "headers": {"Authorization": "Bearer of a wrong token"}})
    result = execute_code("# ours", env=env)
    assert "the MCP server 'ours' could not be started" in str(result.error)
    assert "wrong token" not in str(result.error) and "nobody" not in str(result.error)


def test_servers_leave_no_threads_processes_or_descriptors(
    env: BaseEnvironment, serve: Configure, stdio: dict[str, object], http: dict[str, object]
) -> None:
    serve(ours=stdio, theirs=http, gone={"command": "false"})
    execute_code("1", env=env)  # keeps shells for the next script
    process = psutil.Process()
    before = running_threads(), {child.pid for child in process.children()}, process.num_fds()

    def is_as_before() -> bool:
        threads, children = running_threads(), {child.pid for child in process.children()}
        return threads <= before[0] and children <= before[1] and process.num_fds() <= before[2]

    assert execute_code("import hermes_tools as t; t.ours_add(1), t.theirs_add(2)", env=env).status == "success"
    assert wait_until(is_as_before)
    assert execute_code("# theirs and gone", env=env).status == "error"
    assert wait_until(is_as_before)


def test_a_server_that_dies_is_an_error_of_the_call(
    env: BaseEnvironment, serve: Configure, stdio: dict[str, object]
) -> None:
    serve(ours=stdio)
    code = (
        "from hermes_tools import ours_add, ours_die; print(ours_add(1), 'error' in ours_die(), 'error' in ours_add(1))"
    )
    assert execute_code(code, env=env).output == "3 True True\n"


def test_a_call_ends_with_its_script_and_so_does_the_server(
    env: BaseEnvironment, serve: Configure, stdio: dict[str, object], leave_mark: Path
) -> None:
    serve(ours=stdio)
    interrupt = threading.Event()

    def interrupt_once_begun() -> None:
        wait_until(leave_mark.with_suffix(".begun").exists, 60)
        interrupt.set()

    threading.Thread(target=interrupt_once_begun).start()
    code = f"import hermes_tools as t; print(t.ours_variables()['PID'], flush=True); t.ours_wait({str(leave_mark)!r})"
    result = execute_code(code, env=env, interrupt=interrupt)
    assert result.status == "interrupted"
    assert leave_mark.with_suffix(".cancelled").exists()
    assert is_gone(int(result.output.split()[0]))


def test_a_models_scripts_have_the_servers_tools_unless_a_built_in_tool_is_left_out(
    env: BaseEnvironment, serve: Configure, http: dict[str, object]
) -> None:
    serve(ours=http)
    arguments = {"code": "from hermes_tools import ours_add; print(ours_add(1))"}
    for tools, output in ((None, "3\n"), (["execute_code", "terminal"], "cannot import name 'ours_add'")):
        told = json.loads(answer_in(lambda: env, Toolset.of(tools, None), "execute_code", arguments))
        assert output in told["output"]

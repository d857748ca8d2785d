"""The MCP servers of config.yaml: started for a script with calls of them, and ended with the script."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import psutil
import pytest
from targets.mcp_fixtures import Configure

from code_execution import execute_code, mcp_tools
from code_execution.mcp.settings import McpServer, called_by, servers_of
from environments import BaseEnvironment, MissingExtraError, SettingsError
from environments.conformance.check import wait_until

pytestmark = pytest.mark.xdist_group("mcp")


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_script_that_names_no_server_starts_none(env: BaseEnvironment, serve: Configure, leave_mark: Path) -> None:
    serve(ours={"command": "touch", "args": [str(leave_mark)]})
    assert execute_code("print(1)", env=env).output == "1\n"
    assert execute_code("import hermes_tools as ours", env=env, tools={}).status == "success"
    assert not leave_mark.exists()
    assert execute_code("# ours", env=env).status == "error"
    assert leave_mark.exists()


def test_names_that_a_script_holds_are_what_is_started() -> None:
    servers = {name: McpServer(command="x") for name in ("git", "github", "mail")}
    assert list(called_by("git_log()", servers)) == ["git"]
    assert list(called_by("t.github_issues(); my_mail_list()", servers)) == ["github"]
    assert list(called_by("import hermes_tools; print(dir(hermes_tools))", servers)) == list(servers)
    assert called_by("digit_1 = legit", servers) == {}


@pytest.mark.parametrize("how", ["timeout", "interrupted"])
def test_a_hanging_start_of_a_server_ends_at_the_scripts_time_out_and_interrupt(
    env: BaseEnvironment, serve: Configure, silent: dict[str, object], leave_mark: Path, how: str
) -> None:
    serve(ours=silent)
    interrupt = threading.Event()
    if how == "interrupted":

        def interrupt_once_begun() -> None:
            wait_until(leave_mark.exists, 60)
            interrupt.set()

        threading.Thread(target=interrupt_once_begun).start()
    result = execute_code("# ours", env=env, interrupt=interrupt, timeout=1 if how == "timeout" else 100)
    assert (result.status, result.exit_code) == (how, None)
    if how == "timeout":
        assert "was used up by starting the MCP servers: ours; the script did not run." in result.output
    else:
        assert is_gone(int(leave_mark.read_text()))


def test_without_the_sdk_the_extra_is_named(
    env: BaseEnvironment, serve: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(ours={"command": "true"})
    for module in ("mcp", "code_execution.mcp.servers"):
        monkeypatch.setitem(sys.modules, module, None)
    assert "hermes-environments[mcp]" in str(execute_code("# ours", env=env).error)
    with pytest.raises(MissingExtraError, match=r"mcp_tools needs the extra mcp.*hermes-environments\[mcp\]"):
        mcp_tools(None)  # type: ignore[arg-type]
    assert execute_code("print(1)", env=env).output == "1\n"


def test_a_server_with_a_limit_of_its_own_is_given_up_by_it(
    env: BaseEnvironment, serve: Configure, silent: dict[str, object]
) -> None:
    serve(ours={**silent, "timeout": 0.3})
    assert "'ours' could not be started: it did not answer within 0.3 s" in str(execute_code("# ours", env=env).error)


WRONG: list[tuple[object, str]] = [
    ({}, "give either a command or a url"),
    ({"command": "x", "url": "http://h/"}, "give either a command or a url"),
    ({"comand": "x"}, r"comand: no such setting \(did you mean 'command'\?\)"),
    ({"command": "x", "headers": {"A": "b"}}, "headers means nothing for a server with a command"),
    ({"url": "http://h/", "args": ["a"]}, "args means nothing for a server with a url"),
    ({"url": "file:///x"}, r"url: it should begin with http:// or https://"),
    ({"url": "http://h/", "type": "stdio"}, "type is stdio"),
    ({"command": "x", "type": "sse"}, r"type: it should be 'stdio'"),
    ({"command": "x", "env": {"KEY": ["secret"]}}, "env: "),
    ({"command": "x", "timeout": 0}, "timeout: it should be greater than 0"),
    ("npx server", "should be a mapping with a command or a url"),
]


def test_a_wrong_setting_of_a_server_is_a_settings_error_with_its_name() -> None:
    for server, said in WRONG:
        with pytest.raises(SettingsError, match=f"code_execution.mcp_servers.ours.*{said}") as caught:
            servers_of({"ours": server})
        assert "secret" not in str(caught.value)


def test_the_name_of_a_server_begins_python_names() -> None:
    assert list(servers_of({"my-mail.v2": {"command": "x"}})) == ["my_mail_v2"]
    with pytest.raises(SettingsError, match="another server is called 'a_b'"):
        servers_of({"a-b": {"command": "x"}, "a_b": {"command": "x"}})
    for name in ("1st", "_x", ""):
        with pytest.raises(SettingsError, match="begins with a letter"):
            servers_of({name: {"command": "x"}})


PASSED_ON = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
SHOWN = """
import json, hermes_tools
print(json.dumps(hermes_tools.ours_variables()))
"""


def test_a_server_sees_six_variables_of_this_process_and_those_it_is_given(
    env: BaseEnvironment, serve: Configure, stdio: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARMLESS_HERE", "x")
    monkeypatch.setenv("SOME_API_KEY", "not-the-servers-key")
    serve(ours={**stdio, "env": {"GIVEN": "${SOME_API_KEY}!", "WITH_DEFAULT": "${NOT_SET_HERE:-x}y"}})
    seen = json.loads(execute_code(SHOWN, env=env).output)
    assert seen["GIVEN"] == "[REDACTED:SOME_API_KEY]!" and seen["WITH_DEFAULT"] == "xy"
    added_by_python = {"LC_CTYPE", "PID"}
    assert set(seen) - {"GIVEN", "WITH_DEFAULT"} - added_by_python <= PASSED_ON
    assert "PATH" in seen


def test_a_tool_of_a_server_takes_the_place_of_no_other(
    env: BaseEnvironment, serve: Configure, stdio: dict[str, object]
) -> None:
    serve(ours={**stdio, "tools": ["add"]})
    clash = execute_code(
        "import hermes_tools; hermes_tools.ours_add(1)", env=env, tools={"ours_add": lambda: 1}, mcp_servers=True
    )
    assert "would be 'ours_add' in the script, and so is another tool" in str(clash.error)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"command": "no-such-program"}, "'ours' could not be started: FileNotFoundError"),
        (
            {"command": "sh", "args": ["-c", "echo refused: $TOLD >&2", "${WORDS}"], "env": {"TOLD": "${WORDS}"}},
            "standard error: refused: [REDACTED]",
        ),
        ({"env": {"KEY": "${NOT_SET_HERE}"}}, "the variable NOT_SET_HERE is not set"),
        ({"tools": ["ad"]}, "mcp_servers.ours.tools: the MCP server has no tool 'ad' (did you mean 'add'?)"),
    ],
)
def test_a_server_that_cannot_be_had_is_why_the_script_did_not_run(
    env: BaseEnvironment,
    serve: Configure,
    stdio: dict[str, object],
    server: dict[str, object],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORDS", "tell nobody of this")
    serve(ours={**stdio, **server})
    result = execute_code("import hermes_tools; print(hermes_tools.ours_add(1))", env=env)
    assert (result.status, result.exit_code) == ("error", None)
    assert said in str(result.error)
    assert "tell nobody" not in str(result.error)

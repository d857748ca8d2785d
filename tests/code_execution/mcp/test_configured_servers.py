"""The MCP servers of config.yaml: started for a script that calls them, and ended with it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml
from targets.threads import running_threads

from code_execution import execute_code, mcp_tools
from code_execution.mcp.for_script import called_by
from code_execution.mcp.server_settings import McpServer, servers_of
from environments import BaseEnvironment, MissingExtraError, SettingsError
from environments.conformance.check import wait_until
from hermes_env.schemas.calls import answer_in
from hermes_env.schemas.toolset import Toolset

Configure = Callable[..., None]


@pytest.fixture
def serve(configure: Callable[[str], None]) -> Configure:
    """Writes servers into config.yaml, each a mapping by its name."""
    return lambda **servers: configure(yaml.safe_dump({"code_execution": {"mcp_servers": servers}}))


@pytest.fixture
def stdio(program: str) -> dict[str, object]:
    return {"command": sys.executable, "args": [program]}


@pytest.fixture
def http(url: str, token: str) -> dict[str, object]:
    return {"url": url.replace("mcp", "${NOT_SET_HERE:-mcp}"), "headers": {"Authorization": f"Bearer {token}"}}


@pytest.fixture
def silent(leave_mark: Path) -> dict[str, object]:
    """One that answers nothing, and says in a file who it is."""
    return {"command": "sh", "args": ["-c", f"echo $$ >{leave_mark}; cat >/dev/null"]}


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


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


def test_tools_of_the_caller_have_servers_beside_them_if_asked_for(
    env: BaseEnvironment, serve: Configure, http: dict[str, object]
) -> None:
    serve(ours={**http, "tools": ["add"]}, off={"command": "no-such-program", "enabled": False})
    code = "import hermes_tools; print([name for name in dir(hermes_tools) if 'add' in name], hermes_tools.ours_add(1))"
    tools = {"add_mine": lambda: 1}
    assert execute_code(code, env=env, tools=tools, mcp_servers=True).output == "['add_mine', 'ours_add'] 3\n"
    assert "has no 'ours_add'" in execute_code(code, env=env, tools=tools).output
    clash = execute_code(code, env=env, tools={"ours_add": lambda: 1}, mcp_servers=True)
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


def test_a_server_behind_a_url_that_refuses_us_says_so(env: BaseEnvironment, serve: Configure, url: str) -> None:
    serve(ours={"url": f"{url}?key=nobody-is-to-know", "headers": {"Authorization": "Bearer of a wrong token"}})
    result = execute_code("# ours", env=env)
    assert "the MCP server 'ours' could not be started" in str(result.error)
    assert "wrong token" not in str(result.error) and "nobody" not in str(result.error)


def test_nothing_of_the_servers_is_left_here(
    env: BaseEnvironment, serve: Configure, stdio: dict[str, object], http: dict[str, object]
) -> None:
    serve(ours=stdio, theirs=http, gone={"command": "false"})
    execute_code("1", env=env)  # which keeps shells for the next
    process = psutil.Process()
    before = running_threads(), {child.pid for child in process.children()}, process.num_fds()

    def is_as_before() -> bool:
        threads, children = running_threads(), {child.pid for child in process.children()}
        return threads <= before[0] and children <= before[1] and process.num_fds() <= before[2]

    assert execute_code("import hermes_tools as t; t.ours_add(1), t.theirs_add(2)", env=env).status == "success"
    assert wait_until(is_as_before)
    assert execute_code("# theirs and gone", env=env).status == "error"
    assert wait_until(is_as_before)


@pytest.mark.parametrize("how", ["timeout", "interrupted"])
def test_a_server_that_does_not_start_ends_with_the_scripts_time_and_when_nobody_waits(
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
    env: BaseEnvironment, serve: Configure, stdio: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(ours=stdio)
    for module in ("mcp", "code_execution.mcp.server"):
        monkeypatch.setitem(sys.modules, module, None)
    assert "hermes-environments[mcp]" in str(execute_code("# ours", env=env).error)
    with pytest.raises(MissingExtraError, match=r"mcp_tools needs the mcp package.*hermes-environments\[mcp\]"):
        mcp_tools(None)  # type: ignore[arg-type]
    assert execute_code("print(1)", env=env).output == "1\n"


def test_a_server_with_a_limit_of_its_own_is_given_up_by_it(
    env: BaseEnvironment, serve: Configure, silent: dict[str, object]
) -> None:
    serve(ours={**silent, "timeout": 0.3})
    assert "'ours' could not be started: it did not answer within 0.3 s" in str(execute_code("# ours", env=env).error)


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


@pytest.mark.parametrize(
    ("server", "said"),
    [
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
    ],
)
def test_what_is_wrong_in_a_server_is_a_settings_error_that_names_it(server: object, said: str) -> None:
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


def test_a_models_scripts_have_them_unless_a_tool_of_ours_is_left_out(
    env: BaseEnvironment, serve: Configure, http: dict[str, object]
) -> None:
    serve(ours=http)
    arguments = {"code": "from hermes_tools import ours_add; print(ours_add(1))"}
    for tools, output in ((None, "3\n"), (["execute_code", "terminal"], "cannot import name 'ours_add'")):
        told = json.loads(answer_in(lambda: env, Toolset.of(tools, None), "execute_code", arguments))
        assert output in told["output"]

"""Approvals of a script before staging, and of each tool call before it is made."""

from __future__ import annotations

import threading

from code_execution import execute_code
from environments import BaseEnvironment
from environments.approvals import Ask, Deny, ScriptRequest, ToolCallRequest


def test_a_denied_script_is_a_result_with_the_reason_and_nothing_is_staged(env: BaseEnvironment) -> None:
    env.gate.before_script = lambda request: Deny("no scripts on this host")
    result = execute_code("print('ran')", env=env)
    assert (result.status, result.exit_code, result.tool_calls_made) == ("error", None, 0)
    assert "no scripts on this host" in result.output
    assert result.error == result.output
    assert not env.life.generation


def test_a_hook_sees_the_script(env: BaseEnvironment) -> None:
    seen: list[ScriptRequest] = []
    env.gate.before_script = seen.append
    assert execute_code("print(1)", env=env, mode="strict").status == "success"
    assert seen == [ScriptRequest("print(1)", "strict", "local", "default")]


def test_the_calls_hook_is_asked_in_place_of_the_environments(env: BaseEnvironment) -> None:
    env.gate.before_script = lambda request: False
    assert execute_code("print(1)", env=env, before_script=lambda request: True).status == "success"


def test_an_interrupt_ends_the_wait_for_approval(env: BaseEnvironment) -> None:
    interrupt, answer = threading.Event(), threading.Event()

    def approve(request: object, question: str) -> bool:
        interrupt.set()
        return answer.wait(60)

    env.gate.before_script, env.gate.approve = lambda request: Ask("?"), approve
    result = execute_code("print('ran')", env=env, interrupt=interrupt)
    answer.set()
    assert (result.status, result.exit_code) == ("interrupted", None)
    assert "ran" not in result.output


def test_a_denied_tool_call_is_refused_in_the_script_with_the_reason(env: BaseEnvironment) -> None:
    called: list[int] = []
    seen: list[ToolCallRequest] = []

    def note(number: int, text: str = "") -> None:
        called.append(number)

    def before_tool_call(request: ToolCallRequest) -> object:
        seen.append(request)
        return Deny("seven is too many") if request.arguments["number"] == 7 else None

    script = "from hermes_tools import *\nnote(1, text='x')\ntry: note(7)\nexcept ToolError as error: print(error)"
    result = execute_code(script, env=env, tools={"note": note}, before_tool_call=before_tool_call)
    assert result.status == "success"
    assert result.output == "note: denied, and nothing was run: seven is too many\n"
    assert result.limit is None
    assert called == [1]
    assert seen == [
        ToolCallRequest("note", {"number": 1, "text": "x"}, "local", "default"),
        ToolCallRequest("note", {"number": 7, "text": ""}, "local", "default"),
    ]


def test_a_tool_calls_hook_counts_from_the_next_script_on_and_yields_to_the_calls_own(env: BaseEnvironment) -> None:
    def note() -> None:
        env.gate.before_tool_call = lambda request: "not any more"

    script = "from hermes_tools import *\nfor _ in range(2):\n    try: note()\n    except ToolError as e: print(e)"
    denied = "note: denied, and nothing was run: not any more\n" * 2
    assert [execute_code(script, env=env, tools={"note": note}).output for _ in range(2)] == ["", denied]
    allowed = execute_code(script, env=env, tools={"note": note}, before_tool_call=lambda request: True)
    assert allowed.output == ""


def test_a_tool_calls_hook_that_raises_denies(env: BaseEnvironment) -> None:
    def before_tool_call(request: ToolCallRequest) -> None:
        raise RuntimeError("sk-live-3")

    code = "from hermes_tools import terminal\nterminal('true')"
    result = execute_code(code, env=env, before_tool_call=before_tool_call)
    assert result.status == "error"
    assert "the hook failed" in result.stderr
    assert "sk-live-3" not in result.output


def test_terminal_in_a_script_passes_both_hooks(env: BaseEnvironment) -> None:
    calls, commands = [], []
    env.gate.before_tool_call = lambda request: calls.append(request.tool)
    env.gate.before_command = lambda request: commands.append(request.command) or "not this one"
    result = execute_code("from hermes_tools import terminal\nprint(terminal('touch made'))", env=env)
    assert result.output == "{'output': '', 'exit_code': 126, 'error': 'denied: not this one'}\n"
    assert (calls, commands) == (["terminal"], ["touch made"])


def test_our_own_commands_are_not_asked_about(env: BaseEnvironment, transport: str) -> None:
    env.write_bytes("a", b"x\n")
    env.gate.before_command = lambda request: False
    calls = "read_file('a'), write_file('b', 'x'), search_files('x'), patch('a', 'x', 'y')"
    script = f"from hermes_tools import *\nprint(['error' in result for result in ({calls})])"
    result = execute_code(script, env=env, transport=transport)  # type: ignore[arg-type]
    assert result.output == "[False, False, False, False]\n"


def test_the_end_of_a_script_ends_the_wait_for_approval_of_its_calls(env: BaseEnvironment) -> None:
    asked, answer = threading.Event(), threading.Event()

    def approve(request: object, question: str) -> bool:
        asked.set()
        return answer.wait(60)

    env.gate.before_tool_call, env.gate.approve = lambda request: Ask("?"), approve
    result = execute_code("from hermes_tools import terminal\nterminal('touch made')", env=env, interrupt=asked)
    answer.set()
    assert result.status == "interrupted"
    assert not env.internal.execute("test -e made").ok

"""The answers to a model's tool calls: always JSON text, for any input and any error."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
import typing
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as some
from targets.figures import DRAWS_TWO

from code_execution import execute_code, tools_from_schemas
from environments import BaseEnvironment, tasks
from hermes_env.schemas import handle_function_call, tool_schemas
from hermes_env.schemas.answers import MAX_ANSWER_CHARACTERS, answer
from hermes_env.schemas.descriptions import DESCRIPTIONS

SECRET = "open-sesame-4711"


def called(name: str, arguments: object, **more: typing.Any) -> typing.Any:
    return json.loads(handle_function_call(name, arguments, **more))  # type: ignore[arg-type]


def test_a_tool_works_in_the_environment_of_its_task(env: BaseEnvironment) -> None:
    assert called("write_file", {"path": "a.txt", "content": "one\n"})["created"] is True
    assert called("patch", {"path": "a.txt", "old_string": "one", "new_string": "two"})["replacements"] == 1
    assert called("read_file", '{"path": "a.txt"}')["content"] == "     1|two\n"
    assert called("search_files", {"pattern": "tw."})["total_count"] == 1
    assert called("terminal", {"command": "cat a.txt"}) == {"output": "two\n", "exit_code": 0, "error": None}
    assert env.read_bytes("a.txt") == b"two\n"


def test_each_task_has_a_session_of_its_own(env: BaseEnvironment) -> None:
    called("terminal", {"command": "export WHO=first"})
    called("terminal", {"command": "export WHO=second"}, task_id="another")
    assert called("terminal", {"command": "echo $WHO"})["output"] == "first\n"
    assert called("terminal", {"command": "echo $WHO"}, task_id="another")["output"] == "second\n"
    assert tasks.get_environment() is env


def test_a_script_runs_with_its_tools_and_what_it_prints_comes_back(env: BaseEnvironment) -> None:
    code = "from hermes_tools import terminal\nfor n in range(3): print(terminal(f'echo {n}')['output'], end='')"
    result = called("execute_code", {"code": code})
    assert result.pop("duration_seconds") > 0
    assert result == {"status": "success", "output": "0\n1\n2\n", "error": None, "exit_code": 0, "tool_calls_made": 3}


def test_scripts_of_a_session_share_what_they_define(env: BaseEnvironment) -> None:
    first = called("execute_code", {"code": "x = 20", "session": True})
    assert "value" not in first and "note" not in first
    result = called("execute_code", {"code": "print('printed')\nx + 1", "session": "true"})
    assert (result["value"], result["output"]) == ("21", "printed\n")
    assert "NameError" in called("execute_code", {"code": "x"})["output"]
    assert called("execute_code", {"code": "import os; os._exit(1)", "session": True})["note"].startswith(
        "The Python of"
    )


def test_scripts_of_a_named_session_share_what_they_define(env: BaseEnvironment) -> None:
    called("execute_code", {"code": "x = 1", "session": "one"})
    called("execute_code", {"code": "x = 2", "session": "two"})
    assert called("execute_code", {"code": "x", "session": "one"})["value"] == "1"
    assert called("execute_code", {"code": "x", "session": "two"})["value"] == "2"
    assert "NameError" in called("execute_code", {"code": "x", "session": True})["output"]
    assert "value" not in called("execute_code", {"code": "1", "session": "false"})


def test_figures_beyond_an_answers_bound_are_mentioned(env: BaseEnvironment) -> None:
    note = called("execute_code", {"code": DRAWS_TWO, "session": True})["note"]
    assert note == "2 figures were made; this answer cannot hold them: save them to files."


def test_a_limit_that_a_script_has_reached_is_named(env: BaseEnvironment) -> None:
    code = "from hermes_tools import terminal\nfor n in range(51): terminal(':')"
    result = called("execute_code", {"code": code})
    limit = "The limit of 50 tool calls (max_tool_calls) was reached: 1 tool call was refused."
    assert (result["status"], result["limit"], result["tool_calls_made"]) == ("error", limit, 50)


def test_near_misses_of_a_model_are_understood(env: BaseEnvironment) -> None:
    for arguments, output in {
        '{"command": "echo hi", "timeout": "5"}': "hi\n",
        '{"command": "echo hi", "timeout": null, "pty": null}': "hi\n",
        '{"command": "echo hi", "pty": "false"}': "hi\n",
        '{"command": "echo one\necho two"}': "one\ntwo\n",
    }.items():
        assert called("terminal", arguments)["output"] == output, arguments


def join(words: list[str], between: str = " ") -> str:
    """Return words in a row."""
    return between.join(words)


def test_a_list_may_be_the_json_text_of_one(env: BaseEnvironment) -> None:
    for words in (["a", "b"], '["a", "b"]'):
        assert called("join", {"words": words}, own_tools={"join": join}) == "a b"
    assert called("join", {"words": "a"}, own_tools={"join": join}) == "a"


MISTAKES: list[tuple[str, object, str]] = [
    ("termnal", {}, "there is no tool 'termnal' (did you mean 'terminal'?); there are: terminal, "),
    ("", {}, "there is no tool ''"),
    ("terminal", {}, "wrong arguments: 'command' is missing"),
    ("terminal", None, "wrong arguments: 'command' is missing"),
    ("terminal", "", "wrong arguments: 'command' is missing"),
    ("terminal", {"comand": "ls"}, "there is no 'comand' (did you mean 'command'?)"),
    ("terminal", {"command": 5}, "command: Input should be a valid string"),
    ("terminal", {"command": "ls", "timeout": "soon"}, "timeout: Input should be a valid number"),
    ("terminal", {"command": "ls", "timeout": -1}, "timeout"),
    ("terminal", {"command": "ls", "timeout": "nan"}, "timeout"),
    ("terminal", {"command": "ls", "timeout": True}, "timeout: Input should be a number, not a truth value"),
    ("read_file", {"path": "a.txt", "limit": True}, "limit: Input should be a number, not a truth value"),
    ("read_file", {"path": ["a.txt"]}, "path: Input should be a valid string"),
    ("write_file", {"path": "a.txt", "content": 5}, "content: Input should be a valid string"),
    ("terminal", {"command": None}, "command: Input should be a valid string"),
    ("terminal", "{", "the arguments are not JSON: "),
    ("terminal", "[" * 100_000, "the arguments are not JSON: "),
    ("terminal", "[1]", "the arguments are a JSON list; give an object"),
    ("terminal", 5, "the arguments are not JSON: "),
    ("terminal", {5: "ls"}, "wrong arguments: "),
    ("terminal", {"command": "echo \0"}, "NUL"),
    ("search_files", {"pattern": "x", "target": "names"}, "target: Input should be 'content' or 'files'"),
    ("read_file", {"path": "a", "limit": 0}, "offset and limit count from 1"),
    ("read_file", {"path": "missing.txt"}, "no such file: "),
    ("patch", {"path": "missing.txt"}, "path and old_string must not be empty"),
    ("execute_code", {}, "wrong arguments: 'code' is missing"),
    ("execute_code", {"code": "\ud800"}, "surrogate"),
    ("execute_code", {"code": "", "timeout": 10**9}, "there is no 'timeout'"),
]


@pytest.mark.usefixtures("without_collector")
def test_a_mistake_of_a_model_is_an_answer_with_error(env: BaseEnvironment) -> None:
    answers = [(error, called(name, arguments)["error"]) for name, arguments, error in MISTAKES]
    assert [(error, answer) for error, answer in answers if error not in answer] == []


def test_all_wrong_arguments_are_reported_at_once(env: BaseEnvironment) -> None:
    told = called("search_files", {"limit": "many", "kontext": 2})["error"]
    assert told.count(";") == 2
    assert all(word in told for word in ("'pattern' is missing", "limit: ", "did you mean 'context'?"))


values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=5,
)
names = ["read_file", "write_file", "search_files", "patch", "execute_code", "nothing"]
parameters = ["path", "content", "pattern", "old_string", "limit", "mode", "code", "x"]


@given(
    name=some.sampled_from(names),
    arguments=some.dictionaries(some.sampled_from(parameters), values) | some.text() | values,
)
@hypothesis_settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_raised_for_what_a_model_sends(env: BaseEnvironment, name: str, arguments: object) -> None:
    handle_function_call(name, arguments).encode()  # type: ignore[arg-type]


def test_an_environment_that_cannot_be_had_is_an_answer(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMINAL_ENV", "nowhere")
    assert "nowhere" in called("terminal", {"command": "ls"}, task_id="second")["error"]
    assert "nowhere" in called("execute_code", {"code": "print(1)"}, task_id="second")["error"]


def test_no_secret_is_in_an_answer(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", SECRET)

    def tell() -> list[str]:
        return [SECRET]

    def fail() -> None:
        raise OSError(f"refused for {SECRET}")

    own = {"tell": tell, "fail": fail}
    answers = [
        handle_function_call("terminal", {"command": f"echo {SECRET}"}),
        handle_function_call("execute_code", {"code": f"raise OSError({SECRET!r})"}),
        handle_function_call("write_file", {"path": f"{SECRET}/", "content": ""}),
        handle_function_call("tell", {}, own_tools=own),
        handle_function_call("fail", {}, own_tools=own),
    ]
    assert not any(SECRET in text for text in answers)
    assert all("[REDACTED:MY_API_KEY]" in text for text in answers)


def test_only_the_tools_of_the_model_are_answered(env: BaseEnvironment) -> None:
    told = called("terminal", {"command": "ls"}, tools=["read_file", "execute_code"])["error"]
    assert told == "there is no tool 'terminal'; there are: read_file, execute_code"
    code = "import hermes_tools; print([n for n in hermes_tools.__all__ if n in ('read_file', 'terminal')])"
    result = called("execute_code", {"code": code}, tools=["read_file", "execute_code"])
    assert result["output"] == "['read_file']\n"
    with pytest.raises(ValueError, match="no tool 'terminl'"):
        handle_function_call("terminal", {}, tools=["terminl"])


def test_a_tool_of_the_programs_own_is_called_here_and_by_scripts(env: BaseEnvironment) -> None:
    orders = {17: "Ada"}

    def read_order(number: int) -> str:
        return orders[number]

    own = {"read_order": read_order, "delegate_task": read_order}
    assert called("read_order", {"number": "17"}, own_tools=own) == "Ada"
    assert called("read_order", {"number": 18}, own_tools=own) == {"error": "KeyError: 18"}
    code = "import hermes_tools; print(hermes_tools.read_order(17), hasattr(hermes_tools, 'delegate_task'))"
    assert called("execute_code", {"code": code}, own_tools=own)["output"] == "Ada False\n"


def test_an_own_tool_may_be_async(env: BaseEnvironment) -> None:
    async def wait_for(word: str) -> list[str]:
        await asyncio.sleep(0)
        if word == "nothing":
            raise LookupError(word)
        return [word, threading.current_thread().name]

    async def within_a_loop() -> typing.Any:
        return called("wait_for", {"word": "that"}, own_tools={"wait_for": wait_for})

    own = {"wait_for": wait_for}
    assert called("wait_for", {"word": "this"}, own_tools=own) == ["this", "hermes-async-tools"]
    assert called("wait_for", {"word": "nothing"}, own_tools=own) == {"error": "LookupError: nothing"}
    assert asyncio.run(within_a_loop())[0] == "that"
    assert "hermes-async-tools" not in [thread.name for thread in threading.enumerate()]


def test_bound_arguments_of_an_own_tool_are_in_no_error(env: BaseEnvironment) -> None:
    def fetch(token: str, page: int) -> None:
        raise RuntimeError(f"no page {page} for {token}")

    own = {"fetch": functools.partial(fetch, "sesame-no-variable")}
    assert called("fetch", {"page": 3}, own_tools=own) == {"error": "RuntimeError: no page 3 for [bound argument]"}


def test_a_result_that_json_has_no_words_for_is_an_error(env: BaseEnvironment) -> None:
    def strange() -> object:
        return object()

    def loop() -> object:
        found: list[object] = []
        found.append(found)
        return found

    def astronomic() -> int:
        return 10**5000

    for tool in (strange, loop, astronomic):
        assert set(called(tool.__name__, {}, own_tools={tool.__name__: tool})) == {"error"}


def test_control_c_is_not_an_answer(env: BaseEnvironment) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        handle_function_call("stop", {}, own_tools={"stop": stop})


def test_many_calls_at_once_get_their_own_answers(env: BaseEnvironment) -> None:
    barrier = threading.Barrier(4)

    def one(number: int) -> None:
        barrier.wait(30)
        task = f"task {number % 2}"
        script = {"code": f"from hermes_tools import terminal; print(terminal('echo {number}')['output'])"}
        in_session = called("terminal", {"command": f"echo {number}"}, task_id=task)
        assert in_session.get("output") == f"{number}\n", in_session
        by_script = called("execute_code", script, task_id=task)
        assert by_script.get("output") == f"{number}\n\n", by_script

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(one, number) for number in range(4)]:
            done.result(60)


def test_an_answer_is_bounded_and_names_the_missing_part(env: BaseEnvironment) -> None:
    line = "x" * 1500
    env.write_bytes("long.txt", (line + "\n").encode() * 600)
    text = handle_function_call("read_file", {"path": "long.txt"})
    assert len(text) < MAX_ANSWER_CHARACTERS * 1.1
    result = json.loads(text)
    assert result["content"].startswith("     1|xxx")
    assert "characters left out" in result["content"]
    assert (result["total_lines"], result["truncated"]) == (600, True)
    found = called("search_files", {"pattern": "x", "limit": 600})
    assert found["total_count"] == 600
    assert found["matches"][0]["line"] == 1
    assert found["matches"][-1].endswith("of 600 left out ...]")


@given(values | some.lists(some.text(min_size=5).map(lambda text: text * 1000), max_size=60))
@hypothesis_settings(max_examples=25)
def test_an_answer_is_json_of_a_bounded_length_whatever_it_holds(value: object) -> None:
    text = answer(value)
    json.loads(text)
    assert len(text.encode()) <= 6 * MAX_ANSWER_CHARACTERS


def test_a_large_value_is_cut_to_the_bound() -> None:
    for value in (
        "x" * 10**6,
        ["x" * 1000] * 10**4,
        {str(key): "x" * 1000 for key in range(10**4)},
        {"small": 1, "large": "x" * 10**6, "list": list(range(10**5))},
        {"x" * 10**6: 1},
        [[["x" * 10**6]]],
    ):
        text = answer(value)
        assert len(text) <= 1.1 * MAX_ANSWER_CHARACTERS
        assert "left out" in text


def test_a_background_process_is_handled_over_several_calls(env: BaseEnvironment) -> None:
    started = called("terminal", {"command": "read word; echo got $word", "background": True})
    asked = {"process_id": started["process_id"]}
    assert called("process", {"action": "poll", **asked})["status"] == "running"
    called("process", {"action": "submit", "data": "this", **asked})
    ended = called("process", {"action": "wait", "timeout": "30", **asked})
    assert (ended["exit_code"], ended["output"]) == (0, "got this\n")
    assert "action: Input should be 'list', 'poll'" in called("process", {"action": "stop", **asked})["error"]


def test_a_script_may_have_its_tools_by_their_schemas_and_this_one_function(env: BaseEnvironment) -> None:
    named = [name for name in DESCRIPTIONS if not name.startswith("web_")]
    tools = tools_from_schemas(tool_schemas(tools=named), handle_function_call)
    assert list(tools) == named
    code = """
from hermes_tools import ToolError, patch, process, read_file, search_files, terminal, write_file
write_file("a.txt", "one\\ntwo\\nthree\\n")
print(patch("a.txt", "two", "2")["replacements"], read_file("a.txt", 2, 1)["content"])
print(search_files("t.*e", context=1)["matches"][0]["before"], terminal("cat a.txt; exit 3"))
started = terminal("echo in the background", background=True)
print(process("wait", started["process_id"], timeout=30)["output"])
print(read_file("b.txt").get("error"), read_file("a.txt", limit=0).get("error"))
try: terminal()
except ToolError as error: print(error)
"""
    result = execute_code(code, env=env, tools=tools)
    assert result.status == "success", result.output
    lines = result.output.splitlines()
    assert lines[0] == "1      2|2"
    assert lines[2] == "['2'] {'output': 'one\\n2\\nthree\\n', 'exit_code': 3, 'error': None}"
    assert lines[3] == "in the background"
    assert "no such file" in lines[5] and "count from 1" in lines[5] and "'command'" in lines[6]
    assert result.tool_calls_made == 9

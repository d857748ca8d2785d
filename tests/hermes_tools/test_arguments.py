from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest

import hermes_tools
from code_execution import execute_code
from environments.base import BaseEnvironment
from hermes_tools import model_tools, script_tools
from hermes_tools.binding import check_arguments

GIVEN: dict[str, dict[str, object]] = {
    "terminal": {"command": "echo ran >ran.txt"},
    "process": {"action": "list"},
    "read_file": {"path": "a.txt"},
    "write_file": {"path": "ran.txt", "content": "text"},
    "search_files": {"pattern": "text"},
    "patch": {"path": "a.txt", "old_string": "text", "new_string": "ran"},
    "web_search": {"query": "text"},
    "web_extract": {"urls": ["http://127.0.0.1/"]},
}
WRONG: dict[str, dict[str, tuple[object, ...]]] = {
    "terminal": {
        "command": (5, None, ["ls"], b"ls"),
        "timeout": (True, "5", [5]),
        "workdir": (5, ["/"]),
        "background": (1, "yes", None),
        "pty": (0, "no"),
        "notify_on_exit": (1, None),
        "watch": ("ready", 5, [5], ["ready", None], {"ready": 1}),
    },
    "process": {
        "action": (5, None, ["list"]),
        "process_id": (5, ["p"]),
        "data": (5, b"text"),
        "timeout": (True, "5"),
        "offset": (True, 1.5, "1", None),
        "limit": (True, 1.5, "1", None),
    },
    "read_file": {
        "path": (5, None, ["x"], {"x": 1}, b"x"),
        "offset": (True, 1.5, "1", None),
        "limit": (True, 1.5, "1", None, [1]),
        "numbered": (1, "no", None),
    },
    "write_file": {"path": (5, None, ["x"]), "content": (5, None, ["x"], b"x")},
    "search_files": {
        "pattern": (5, None, ["x"]),
        "target": (5, None, ["files"]),
        "path": (5, None, ["."]),
        "file_glob": (5, ["*.py"]),
        "limit": (True, "5", None),
        "offset": (False, "5", None),
        "output_mode": (5, None),
        "context": (True, "5", None),
    },
    "patch": {
        "path": (5, None, ["a.txt"]),
        "old_string": (5, None),
        "new_string": (5, None, ["x"]),
        "replace_all": (1, "yes", None),
        "mode": (5, None),
        "patch": (5, ["x"]),
    },
    "web_search": {"query": (5, None, ["x"]), "limit": (True, "5", None)},
    "web_extract": {"urls": (5, None, [5], ["http://127.0.0.1/", None]), "format": (5, None)},
}
CASES = [(tool, name, value) for tool, names in WRONG.items() for name, values in names.items() for value in values]


@pytest.mark.parametrize(("tool", "name", "value"), CASES)
def test_an_argument_of_a_wrong_type_is_an_error_that_names_it(
    env: BaseEnvironment, tool: str, name: str, value: object
) -> None:
    env.write_bytes("a.txt", b"text\n")
    arguments = {**GIVEN[tool], name: value}
    forms: list[Callable[..., object]] = [model_tools(env)[tool]]
    if tool in script_tools(env) and name in inspect.signature(script_tools(env)[tool]).parameters:
        forms.append(script_tools(env)[tool])
    for form in forms:
        with pytest.raises(TypeError, match=rf"^{name} must be .*, not "):
            form(**arguments)
        signature = inspect.signature(form)
        by_place = [arguments.get(each, signature.parameters[each].default) for each in signature.parameters]
        with pytest.raises(TypeError, match=rf"^{name} must be .*, not "):
            form(*by_place)
    assert env.read_bytes("a.txt") == b"text\n"
    assert "ran.txt" not in [entry.name for entry in env.list_dir(".")]


def test_every_parameter_of_every_tool_is_checked(env: BaseEnvironment) -> None:
    tools = model_tools(env)
    assert {tool: list(inspect.signature(tools[tool]).parameters) for tool in tools} == {
        tool: list(names) for tool, names in WRONG.items()
    }
    for tool, function in tools.items():
        signature = inspect.signature(function)
        defaults = {name: each.default for name, each in signature.parameters.items() if each.default is not each.empty}
        presented = function.__dict__["__presents__"]
        check_arguments(presented, {**GIVEN[tool], **defaults})
        with pytest.raises(TypeError, match="'nothing'"):
            function(**GIVEN[tool], nothing=1)


def test_the_configured_environment_is_not_started_for_wrong_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("environments.tasks.get_environment", lambda: pytest.fail("it was started"))
    with pytest.raises(TypeError, match="limit must be a whole number, not bool"):
        hermes_tools.read_file("a.txt", limit=True)
    with pytest.raises(TypeError, match="missing a required argument: 'path'"):
        hermes_tools.read_file()  # type: ignore[call-arg]


def test_values_that_fit_pass(env: BaseEnvironment) -> None:
    tools = model_tools(env)
    assert tools["terminal"]("echo here", timeout=5)["exit_code"] == 0  # type: ignore[index]
    assert tools["terminal"]("echo here", timeout=5.5, watch=())["exit_code"] == 0  # type: ignore[index]
    shown = tools["web_extract"]("http://127.0.0.1/")
    assert "results" in shown or "error" in shown  # type: ignore[operator]  # one address without a list


def test_a_script_gets_the_error_that_names_the_argument(env: BaseEnvironment) -> None:
    code = (
        "from hermes_tools import patch, read_file, write_file\n"
        "print(read_file('a.txt', limit=True))\n"
        "print(read_file(['a.txt']))\n"
        "print(write_file('a.txt', content=5))\n"
        "print(patch('a.txt', 'a', 'b', replace_all='no'))\n"
    )
    result = execute_code(code, env=env, tool_errors="return")
    assert re.findall(r"TypeError: (.*?)\"", result.output.replace("'}", '"')) == [
        "limit must be a whole number, not bool",
        "path must be text, not list of str",
        "content must be text, not int",
        "replace_all must be True or False, not str",
    ]

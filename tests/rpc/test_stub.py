from __future__ import annotations

import ast
import enum
import functools
import inspect
import subprocess
import sys
import time

import pytest

from rpc import FILE_QUEUE, SOCKET, generate_stub

SELDOM = {"typing", "shlex", "pathlib", "inspect", "dataclasses", "json", "socket", "functools", "threading", "difflib"}


class Color(enum.IntEnum):
    RED = 1


def every_kind(a, b=2, /, c=3, d=(4, 5), *rest, e, f=b"f", g=Color.RED, **more):
    """Return the arguments."""
    return repr((a, b, c, d, rest, e, f, g, sorted(more.items())))


def plain(a: int, b: str | None = None, *, c: list[str] = ["x"], d: float = -0.5) -> dict[str, int]:  # noqa: B006
    """Do nothing.

    This isn't "quoted", with a \\ and \"\"\" inside.
    """
    return repr((a, b, c, d))


def test_the_stub_is_python_3_8():
    for client in (SOCKET, FILE_QUEUE):
        source = generate_stub({"every_kind": every_kind, "plain": plain}, client)
        ast.parse(source, feature_version=(3, 8))


def test_functions_have_the_handlers_signature_and_docstring(load):
    stub = load(plain=plain)
    assert inspect.getdoc(stub.plain) == inspect.getdoc(plain)
    assert str(inspect.signature(stub.plain)) == (
        "(a: 'int', b: 'str | None' = None, *, c: 'list[str]' = ['x'], d: 'float' = -0.5) -> 'dict[str, int]'"
    )


GIVEN = [
    ((1,), {"e": 5}),
    ((1, 20), {"e": 5, "f": "F"}),
    ((1, 20, 30), {"e": 5}),
    ((1,), {"e": 5, "d": "D"}),
    ((1, 2, 3, 4), {"e": 5}),
    ((1, 2, 3, 4, 50, 60), {"e": 5, "a": "kept apart", "rest": 1, "more": 2, "tool": 3}),
    ((None,), {"e": {"x": [1.5, True]}, "g": "é\ud800\n'\""}),
]


def test_a_call_reaches_the_handler_as_if_it_were_direct(load):
    stub = load(every_kind=every_kind)
    failed = [given for given in GIVEN if stub.every_kind(*given[0], **given[1]) != every_kind(*given[0], **given[1])]
    assert failed == []


@pytest.fixture(params=["return", "raise"])
def refusal(request, load):
    """Make a refused call, with errors returned and raised, and return the message."""

    def make(call, **handlers):
        stub = load(tool_errors=request.param, **handlers)
        sent = []
        stub._exchange = sent.append
        if request.param == "return":
            answer = call(stub)
            assert list(answer) == ["error"]
            said = answer["error"]
        else:
            with pytest.raises(stub.ToolError) as raised:
                call(stub)
            assert raised.value.__cause__ is None
            said = str(raised.value)
        assert sent == []
        return said

    return make


def test_a_call_with_wrong_arguments_is_refused_with_the_right_call(refusal):
    said = refusal(lambda stub: stub.plain(), plain=plain)
    assert said == (
        "plain: wrong arguments: plain() missing 1 required positional argument: 'a'; "
        "the call is plain(a, b=None, *, c=['x'], d=-0.5)"
    )
    assert "unexpected keyword argument 'z'" in refusal(lambda stub: stub.plain(1, z=2), plain=plain)


def test_any_callable_makes_a_function(load):
    handlers = {"part": functools.partial(plain, 1, c=["y"]), "most": max, "get": dict.get, "color": Color}
    stub = load(**handlers)
    assert all(callable(getattr(stub, name)) for name in handlers)


def test_a_partial_and_a_bound_method_are_called_without_what_they_have(load):
    stub = load(part=functools.partial(plain, 1), upper="text".upper)
    assert stub.part("b") == plain(1, "b")
    assert stub.upper() == "TEXT"


def annotated(annotation):
    def tool(a):
        return a

    tool.__annotations__["a"] = annotation
    return tool


def test_an_annotation_that_is_not_a_plain_type_is_dropped(load, capsys):
    for annotation in ("int) or print('run'", "(yield)", "(x := 1)", "int\nprint('run')", "print('run')", "1 +", "\0"):
        stub = load(tool=annotated(annotation))
        assert str(inspect.signature(stub.tool)) == "(a)", annotation
        assert stub.tool(1) == 1
    assert capsys.readouterr().out == ""


def test_a_name_the_module_cannot_have_is_refused():
    for name in ("", "a-b", "class", "None", "1st", "_private", "__all__", "retry", "ToolError", "len"):
        with pytest.raises(ValueError, match="tool name"):
            generate_stub({name: plain}, SOCKET)


def test_names_of_builtins_and_modules_the_stub_does_not_need_are_free(load):
    stub = load(print=plain, json=plain, os=plain, time=plain, list=plain, sys=plain, id=plain)
    assert stub.print(1) == stub.json(1) == stub.os(1) == stub.time(1) == stub.list(1) == stub.sys(1) == stub.id(1)
    assert stub.json_parse("[1]") == [1]


def test_an_annotation_keeps_the_type_and_nothing_else(load):
    stub = load(tool=annotated("list [ 'x' ]  # why"))
    assert inspect.signature(stub.tool).parameters["a"].annotation == "list['x']"


def test_a_parameter_may_have_any_name(load):
    def tool(_call, _tool, given, *args, **kwargs):
        return [_call, _tool, given, args, kwargs]

    assert load(tool=tool).tool(1, 2, 3, 4, self=5, arguments=6) == [1, 2, 3, [4], {"self": 5, "arguments": 6}]


def test_a_token_with_quotes_is_only_data(load):
    token = "'\"\\ + print('run') #"
    assert load(token, plain=plain).plain(1) == plain(1)


def test_the_stub_holds_no_token_and_no_path_of_a_script(load):
    stub = load("sesame", "/tmp/'\"\n$(x)\né", plain=plain)
    assert "sesame" not in inspect.getsource(stub)
    assert stub.plain(1) == plain(1)
    assert stub._own() == ["sesame", "/tmp/'\"\n$(x)\né"]


def test_an_unknown_name_is_an_error_that_lists_what_there_is(load):
    stub = load(plain=plain, web_search=plain)
    there = "there are: ToolError, json_parse, plain, retry, shell_quote, web_search"
    with pytest.raises(AttributeError) as raised:
        _ = stub.nothing
    assert str(raised.value) == f"hermes_tools has no 'nothing'; {there}"
    with pytest.raises(AttributeError) as raised:
        _ = stub.web_serch
    assert str(raised.value) == f"hermes_tools has no 'web_serch'; {there}; did you mean 'web_search'?"
    assert not hasattr(stub, "__path__")


def test_a_refusal_is_a_result_or_raised_as_a_tool_error(load):
    limit = "plain: the limit of 0 tool calls"
    assert load(max_calls=0, plain=plain).plain(1)["error"].startswith(limit)
    stub = load(max_calls=0, tool_errors="raise", plain=plain)
    with pytest.raises(stub.ToolError, match=f"^{limit}"):
        stub.plain(1)


def test_a_refusal_of_what_was_not_understood_names_the_tool(load):
    said = load(plain=plain).plain([0] * 300_000)["error"]
    assert said.startswith("plain: the request was not understood: the message is made of over 250000 values")


UNSENT = [
    ((b"x",), {}, "a", "bytes"),
    ((1,), {"e": {1, 2}}, "e", "set"),
    ((1, 2, 3, 4, {"deep": [object()]}), {"e": 1}, "*0", "dict"),
    ((1,), {"e": float("nan")}, "e", "float"),
    ((1,), {"e": 1, "extra": 1j}, "extra", "complex"),
]


def test_an_argument_json_cannot_carry_is_refused_and_nothing_is_sent(refusal):
    for args, kwargs, name, kind in UNSENT:
        given = {"e": 1, **kwargs}
        said = refusal(lambda stub, args=args, given=given: stub.every_kind(*args, **given), every_kind=every_kind)
        assert said.startswith(f"every_kind: wrong arguments: '{name}', of type {kind}, can't be sent as JSON")


def test_arguments_above_the_limit_are_refused_and_nothing_is_sent(refusal):
    said = refusal(lambda stub: stub.plain("x" * 34_000_000), plain=plain)
    assert said.startswith("plain: the arguments take 34000")


def test_an_answer_that_is_not_ours_is_a_tool_error(load):
    stub = load(plain=plain)
    for answer in (b"", b"{", b'{"id": "another", "result": 1}'):
        stub._exchange = lambda line, answer=answer: answer
        with pytest.raises(stub.ToolError, match=r"^plain: the answer"):
            stub.plain(1)


def test_a_lost_connection_is_a_tool_error(load):
    def lost(line):
        raise ConnectionRefusedError("refused")

    stub = load(plain=plain)
    stub._exchange = lost
    with pytest.raises(stub.ToolError, match=r"^plain: the tools can't be reached: refused"):
        stub.plain(1)


def test_json_parse_accepts_control_characters_inside_strings(load):
    assert load().json_parse('{"a": "line\nbreak\tand tab"}') == {"a": "line\nbreak\tand tab"}


def test_shell_quote_makes_one_word(load):
    word = load().shell_quote("it's $HOME; `x`")
    assert subprocess.check_output(["/bin/sh", "-c", f"printf %s {word}"], text=True) == "it's $HOME; `x`"


def test_retry_waits_twice_as_long_each_time_and_returns_the_first_result(load, monkeypatch):
    pauses, results = [], iter([ValueError(), ValueError(), "ok"])
    monkeypatch.setattr(time, "sleep", pauses.append)

    def sometimes():
        if isinstance(result := next(results), Exception):
            raise result
        return result

    assert load().retry(sometimes) == "ok"
    assert pauses == [2, 4]


def test_retry_raises_the_last_error(load, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    attempts = []

    def never():
        attempts.append(1)
        raise ValueError(f"attempt {len(attempts)}")

    with pytest.raises(ValueError, match="attempt 4"):
        load().retry(never, max_attempts=4, delay=0.1)


def test_retry_takes_a_result_with_an_error_for_a_failure_and_returns_the_last(load, monkeypatch):
    pauses = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    results = [{"error": "busy"}, {"error": None, "output": "x"}]
    assert load().retry(lambda: results.pop(0)) == {"error": None, "output": "x"}
    assert load().retry(lambda: {"error": "gone"}) == {"error": "gone"}
    assert pauses == [2, 2, 4]


def test_importing_the_stub_loads_only_what_every_call_needs(tmp_path):
    for client in (SOCKET, FILE_QUEUE):
        (tmp_path / "hermes_tools.py").write_text(generate_stub({"plain": plain}, client))
        code = (
            f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; import hermes_tools; print(*{SELDOM} & set(sys.modules))"
        )
        assert subprocess.check_output([sys.executable, "-I", "-S", "-c", code]).strip() == b""


def test_a_default_left_to_the_tool_shifts_no_argument_behind_it(load):
    def tool(first=object, second=2, /):
        return [first is object, second]

    assert load(tool=tool).tool() == [True, 2]
    assert load(tool=tool).tool(1) == [False, 2]
    assert load(tool=tool).tool(1, 3) == [False, 3]

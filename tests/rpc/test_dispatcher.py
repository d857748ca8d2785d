from __future__ import annotations

import functools
import inspect
import itertools
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from environments.cancellation import current_scope
from environments.errors import DeniedError
from rpc import MAX_MESSAGE_BYTES, SOCKET, Dispatcher, Request, Response, generate_stub, messages
from rpc.dispatcher import FREE_REFUSALS, REFUSAL_PAUSE

_ids = itertools.count()


def call(dispatcher, tool, *args, request_id=None, token="token", **kwargs):
    identity = request_id or f"id{next(_ids)}"
    answer = Response.decode(dispatcher.dispatch(Request(identity, tool, list(args), kwargs, token).encode()))
    assert answer.id == identity
    return answer


def make(max_calls=50, **handlers):
    return Dispatcher(handlers, token="token", max_calls=max_calls)


def add(a, b=1):
    return a + b


def failure(dispatcher, tool, *args, **kwargs):
    """Return the error in a failed tool's result."""
    answer = call(dispatcher, tool, *args, **kwargs)
    assert answer.error is None
    assert list(answer.result) == ["error"]
    return answer.result["error"]


def test_a_call_is_answered_with_the_result():
    assert call(make(add=add), "add", 2, b=3).result == 5


def forged(dispatcher, tool, *args, token="tokem\ud800"):
    return Response.decode(dispatcher.dispatch(Request("forged", tool, list(args), {}, token).encode()))


def test_a_wrong_token_is_refused_and_nothing_runs():
    ran = []
    answer = forged(make(tool=lambda: ran.append(1)), "tool")
    assert "token is wrong" in answer.error
    assert ran == []


def test_a_message_without_the_token_is_never_decoded(monkeypatch):
    dispatcher = make(add=add)
    monkeypatch.setattr(Request, "decode", None)
    for line in (b"", b"[" * 1_000_000, b"[],[]," * 100_000, b'{"id":"1","token":"token"}\n'):
        assert "token is wrong" in Response.decode(dispatcher.dispatch(line)).error


def test_repeated_refusals_are_answered_more_slowly(monkeypatch):
    pauses = []
    dispatcher = make(max_calls=0)
    monkeypatch.setattr(dispatcher._ended, "wait", pauses.append)
    for _ in range(FREE_REFUSALS):
        forged(dispatcher, "tool")
    assert pauses == []
    forged(dispatcher, "tool")
    forged(dispatcher, "tool", "x" * (MAX_MESSAGE_BYTES - 1000))
    assert pauses[0] == REFUSAL_PAUSE
    assert pauses[1] > 1


def test_a_message_of_millions_of_values_is_refused_before_any_is_made(monkeypatch):
    monkeypatch.setattr(messages, "_DECODER", None)
    line = Request("id", "add", [], {}, "token").encode().rstrip(b"}\n") + b',"x":[' + b"[]," * 1_000_000 + b"[]]}\n"
    answer = make(add=add).dispatch(line)
    assert b"is made of over 250000 values" in answer


def test_a_text_full_of_brackets_and_quotes_is_one_value():
    text = '\\",[{' * 100_000
    assert call(make(echo=lambda value: value), "echo", text).result == text


def test_a_request_that_comes_again_when_its_answer_is_gone_does_not_run_again():
    runs = []
    dispatcher = make(large=lambda: runs.append(1) or "x" * 2_000_000)
    assert call(dispatcher, "large", request_id="same").error is None
    assert "its answer is gone" in call(dispatcher, "large", request_id="same").error
    assert runs == [1]


def query(sql, api_key, limit=5):
    """Run a query."""
    raise RuntimeError(f"cannot connect with {api_key}")


BOUND = [
    functools.partial(query, api_key="sk-live-1234"),
    functools.partial(functools.partial(query, limit=1), api_key="sk-live-1234"),
    functools.wraps(query)(functools.partial(query, api_key="sk-live-1234")),
    lambda sql, api_key="sk-live-1234": query(sql, api_key),
]


def test_bound_arguments_of_a_tool_are_in_no_stub_and_in_no_error():
    for tool in BOUND:
        dispatcher = make(query=tool)
        assert "sk-live" not in generate_stub({"query": tool}, SOCKET)
        assert "sk-live" not in call(dispatcher, "query").error  # wrong arguments; the message has the right call
        if not inspect.isfunction(tool):
            assert "sk-live" not in failure(dispatcher, "query", "SELECT 1")
            assert "unexpected keyword argument 'api_key'" in call(dispatcher, "query", "x", api_key="other").error


def test_a_bound_argument_cannot_be_overridden_where_a_tool_takes_any_keyword():
    seen = []
    tool = functools.partial(lambda **given: seen.append(given), api_key="sk-live-1234")
    assert "unexpected keyword argument 'api_key'" in call(make(tool=tool), "tool", api_key="other").error
    assert call(make(tool=tool), "tool", other=1).error is None
    assert seen == [{"api_key": "sk-live-1234", "other": 1}]


def test_an_empty_token_is_refused():
    with pytest.raises(ValueError, match="token is empty"):
        Dispatcher({}, token="")


def test_an_unknown_tool_is_refused_with_those_that_exist():
    answer = call(make(add=add, sub=add), "execute_code")
    assert answer.error == "execute_code: there is no such tool; available tools: add, sub"


def test_wrong_arguments_are_named_with_the_right_call():
    dispatcher = make(add=add)
    wrong = [
        (call(dispatcher, "add"), "missing a required argument: 'a'"),
        (call(dispatcher, "add", 1, c=2), "unexpected keyword argument 'c'"),
        (call(dispatcher, "add", 1, 2, 3), "too many positional arguments"),
    ]
    assert [answer for answer, said in wrong if said not in answer.error or "add(a, b=1)" not in answer.error] == []


def test_a_type_error_inside_a_handler_is_not_taken_for_wrong_arguments():
    assert failure(make(add=add), "add", "text").startswith("add: TypeError: ")


def test_a_malformed_request_is_answered_with_an_error():
    dispatcher = make()
    for line in (b"", b"}", b"\0\xff\n", b'"id": 1}'):
        answer = Response.decode(dispatcher.dispatch(dispatcher.prefix + line))
        assert answer.id == ""
        assert answer.error.startswith("the request was not understood")


def test_the_call_after_the_last_allowed_one_names_the_limit():
    dispatcher = make(max_calls=2, add=add)
    assert [call(dispatcher, "add", n).result for n in (1, 2)] == [2, 3]
    assert "the limit of 2 tool calls" in call(dispatcher, "add", 3).error
    assert dispatcher.calls_made == 2


def test_refused_calls_do_not_count():
    dispatcher = make(max_calls=1, add=add)
    call(dispatcher, "nope")
    call(dispatcher, "add")
    forged(dispatcher, "add", 1)
    assert dispatcher.calls_made == 0
    assert call(dispatcher, "add", 1).result == 2


def test_the_limit_holds_when_calls_come_at_the_same_time():
    dispatcher = make(max_calls=10, add=add)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda n: call(dispatcher, "add", n), range(40)))
    assert sum(answer.error is None for answer in answers) == 10


def test_a_repeated_request_runs_once_and_gets_the_same_answer():
    runs = []
    dispatcher = make(tool=lambda: runs.append(1) or len(runs))
    answers = [call(dispatcher, "tool", request_id="same") for _ in range(3)]
    assert [answer.result for answer in answers] == [1, 1, 1]
    assert dispatcher.calls_made == 1


def test_a_request_repeated_while_it_runs_waits_for_the_running_one():
    started, proceed, runs = threading.Event(), threading.Event(), []

    def slow():
        runs.append(1)
        started.set()
        assert proceed.wait(10)
        return "done"

    dispatcher = make(slow=slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(call, dispatcher, "slow", request_id="same")
        assert started.wait(10)
        second = pool.submit(call, dispatcher, "slow", request_id="same")
        proceed.set()
        assert (first.result(10).result, second.result(10).result) == ("done", "done")
    assert runs == [1]


def test_handlers_run_side_by_side():
    together = threading.Barrier(3, timeout=10)
    dispatcher = make(meet=lambda: together.wait() >= 0)
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: call(dispatcher, "meet"), range(3)))
    assert [answer.result for answer in answers] == [True] * 3


def test_an_error_of_a_hook_is_a_refusal_and_an_error_of_the_tool_a_result():
    def deny(tool, arguments):
        raise DeniedError("not this one")

    dispatcher = Dispatcher({"add": add}, token="token", before_call=deny)
    assert call(dispatcher, "add", 1).error == "add: denied, and nothing was run: not this one"

    def denied():
        raise DeniedError("not that one")

    assert failure(make(tool=denied), "tool") == "tool: denied, and nothing was run: not that one"


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError


def test_a_handler_that_raises_is_answered_with_type_and_message():
    def tool(number):
        raise [ValueError("no such thing"), KeyError(), SystemExit(3), UnprintableError(), ValueError("x" * 9**7)][
            number
        ]

    dispatcher = make(tool=tool)
    *said, long = [failure(dispatcher, "tool", number) for number in range(5)]
    assert said == [
        "tool: ValueError: no such thing",
        "tool: KeyError",
        "tool: SystemExit: 3",
        "tool: UnprintableError",
    ]
    assert len(long) < 20_000


def test_a_result_json_cannot_carry_is_an_error_that_names_tool_and_type():
    for result in (b"x", {1, 2}, float("nan"), object(), {"deep": [b"x"]}, {(1, 2): 3}):
        error = failure(make(tool=lambda result=result: result), "tool")
        assert error.startswith(f"tool: the result, of type {type(result).__name__}, can't be sent")


def test_a_result_above_the_limit_is_an_error():
    assert "too large" in failure(make(tool=lambda: "x" * MAX_MESSAGE_BYTES), "tool")


@pytest.mark.usefixtures("without_collector")
def test_a_result_of_unbounded_depth_is_an_error():
    deep = []
    for _ in range(sys.getrecursionlimit() * 50):
        deep = [deep]
    assert "can't be sent" in failure(make(tool=lambda: deep), "tool")


def test_a_closed_dispatcher_refuses_calls():
    dispatcher = make(add=add)
    dispatcher.close()
    assert "no more tool calls" in call(dispatcher, "add", 1).error
    assert dispatcher.calls_made == 0


def test_closing_cancels_what_running_handlers_wait_for():
    started = threading.Event()

    def waits():
        ended = threading.Event()
        with current_scope().calling(ended.set):
            started.set()
            return ended.wait(10)

    dispatcher = make(waits=waits)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call, dispatcher, "waits")
        assert started.wait(10)
        dispatcher.close()
        assert answer.result(10).result is True


def test_arguments_results_and_token_are_never_logged(caplog):
    caplog.set_level(logging.DEBUG)
    dispatcher = make(add=add)
    call(dispatcher, "add", "hunter2")
    forged(dispatcher, "add", 1, token="hunter2")
    call(dispatcher, "hunter2")
    assert "hunter2" not in caplog.text

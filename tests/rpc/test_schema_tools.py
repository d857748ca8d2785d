"""Tools from function-calling schemas: signatures, docstrings, arguments of `handle`, and results."""

from __future__ import annotations

import functools
import inspect
import json
import re

import pytest

from rpc import Dispatcher, Request, Response, tools_from_schemas

SEARCH = {
    "name": "search",
    "description": "Search the documents.",
    "parameters": {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "description": "How many.", "default": 10},
            "query": {"type": "string", "description": "What to\n look for."},
            "kind": {"type": ["string", "null"], "enum": ["all", "new"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "since": {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/date"}]},
        },
        "required": ["query"],
    },
}
ODD = {
    "name": "odd",
    "parameters": {
        "properties": {"file-path": {"type": "string", "description": "Which."}, "class": {}, "more": {}, "n": {}},
        "required": ["file-path"],
    },
}


def schema(**parameters):
    return {"name": "tool", "parameters": {"type": "object", **parameters}}


@pytest.fixture
def load_schemas(load):
    """Loads a stub of schema tools."""
    return lambda schemas, handle: load(**tools_from_schemas(schemas, handle))


@pytest.fixture
def called(load_schemas):
    """Make a call in a script, and return the arguments of `handle`."""
    got = []

    def make(schemas, name, /, *args, **kwargs):
        stub = load_schemas(schemas, lambda name, arguments: got.append((name, arguments)))
        answer = getattr(stub, name)(*args, **kwargs)
        assert answer is None, answer
        return got.pop()

    return make


FORMS = [
    SEARCH,
    {"type": "function", "function": SEARCH},
    {"type": "function", **SEARCH},
    {"name": "search", "description": SEARCH["description"], "input_schema": SEARCH["parameters"]},
    {"type": "custom", "name": "search", "input_schema": SEARCH["parameters"]},
]


def test_each_form_of_a_schema_is_accepted(called):
    assert [called([form], "search", "x") for form in FORMS] == [("search", {"query": "x", "limit": 10})] * 5


def test_the_signature_has_what_is_required_first_and_then_the_rest(load_schemas):
    stub = load_schemas([SEARCH], print)
    assert str(inspect.signature(stub.search)) == (
        "(query: 'str', limit: 'int' = 10, kind: 'str | None' = ..., tags: 'list[str]' = ..., since=...)"
    )
    assert inspect.getdoc(stub.search) == (
        "Search the documents.\n\nArgs:\n    limit: How many.\n    query: What to look for.\n"
        "    kind: One of 'all', 'new'."
    )


def test_arguments_are_bound_by_place_and_by_name_and_what_is_not_given_is_not_sent(called):
    assert called([SEARCH], "search", "x", 3, "new") == ("search", {"query": "x", "limit": 3, "kind": "new"})
    assert called([SEARCH], "search", tags=["a"], query="x") == ("search", {"query": "x", "limit": 10, "tags": ["a"]})
    assert called([{"name": "now"}], "now") == ("now", {})


def test_properties_that_can_be_no_parameters_are_passed_by_their_names(called, load_schemas):
    stub = load_schemas([ODD], print)
    assert str(inspect.signature(stub.odd)) == "(more=..., n=..., **more_)"
    assert "file-path: Which. Pass it as **{'file-path': ...}; required." in stub.odd.__doc__
    assert called([ODD], "odd", 1, **{"file-path": "x", "class": 2}) == (
        "odd",
        {"more": 1, "file-path": "x", "class": 2},
    )


def test_a_property_may_have_any_name(called):
    names = ["self", "args", "kwargs", "name", "arguments", "handle", "_call", "given", "tool", "schema"]
    values = {name: number for number, name in enumerate(names)}
    assert called([schema(properties={name: {} for name in names})], "tool", **values) == ("tool", values)


def test_additional_properties_are_passed_where_the_schema_allows_them(called):
    for additional in (True, {}, {"type": "string"}):
        open_schema = schema(properties={"a": {}}, additionalProperties=additional)
        assert called([open_schema], "tool", 1, other="x") == ("tool", {"a": 1, "other": "x"})


WRONG = [
    ([SEARCH], (), {}, "'query'; the call is search(query, limit=10, kind=..., tags=..., since=...)"),
    ([SEARCH], ("x",), {"lmit": 1}, "unexpected keyword argument 'lmit'"),
    ([SEARCH], range(6), {}, "takes from 1 to 5 positional arguments but 6 were given"),
    ([ODD], (), {}, "missing a required argument: 'file-path'"),
    ([ODD], (), {"file-path": 1, "other": 1}, "unexpected keyword argument 'other'"),
    ([schema(additionalProperties=False)], (), {"a": 1}, "unexpected keyword argument 'a'"),
]


def test_wrong_arguments_are_refused_before_handle_is_called(load_schemas):
    ran, failed = [], []
    for schemas, args, kwargs, said in WRONG:
        name = schemas[0]["name"]
        error = getattr(load_schemas(schemas, lambda name, arguments: ran.append(name)), name)(*args, **kwargs)["error"]
        if f"{name}: wrong arguments: " not in error or said not in error:
            failed.append((said, error))
    assert (ran, failed) == ([], [])


ANSWERS = [
    ('{"a": [1, null]}', {"a": [1, None]}),
    (" [1]\n", [1]),
    ('"text"', "text"),
    ("123", 123),
    ("null", None),
    ("plain text", "plain text"),
    ("", ""),
    ("{'a': 1}", "{'a': 1}"),
    ("NaN", "NaN"),
    ("[" * 100_000, "[" * 100_000),
    ("1" * 10_000, "1" * 10_000),
    ({"a": "[1]"}, {"a": "[1]"}),
    (7, 7),
    ('{"error": "no such document"}', {"error": "no such document"}),
]


@pytest.mark.usefixtures("without_collector")
def test_an_answer_that_is_json_text_arrives_decoded():
    async def later(name, arguments):
        return ANSWERS[int(arguments["query"])][0]

    def at_once(name, arguments):
        return ANSWERS[int(arguments["query"])][0]

    for handle in (at_once, later):
        dispatcher = Dispatcher(tools_from_schemas([SEARCH], handle), token="t")
        for number, (_, arrives) in enumerate(ANSWERS):
            request = Request(f"id{number}", "search", [str(number)], {}, "t").encode()
            assert Response.decode(dispatcher.dispatch(request)).result == arrives
        dispatcher.close()
        dispatcher.join(60)


def test_the_text_of_a_plain_function_stays_text(load):
    assert load(tool=lambda: "[1]").tool() == "[1]"


def test_an_error_of_handle_is_the_result_without_bound_arguments(load_schemas):
    def handle(name, arguments, key):
        raise PermissionError(f"{key} was refused")

    answer = load_schemas([SEARCH], functools.partial(handle, key="sk-live-1234")).search("x")
    assert answer == {"error": "search: PermissionError: [bound argument] was refused"}


def test_defaults_of_a_schema_stand_in_the_stub(load_schemas):
    texts = schema(properties={"mode": {"default": "fast"}, "tags": {"default": ["a"]}, "none": {"default": None}})
    assert str(inspect.signature(load_schemas([texts], print).tool)) == "(mode='fast', tags=['a'], none=None)"


def test_a_name_has_underscores_for_what_no_name_can_have(called):
    dashed = {"name": "github.get-issue", "parameters": {"properties": {"number": {}}}}
    assert called([dashed], "github_get_issue", 5) == ("github.get-issue", {"number": 5})


def test_the_tools_are_functions_that_can_be_called_here():
    tools = tools_from_schemas([SEARCH, ODD], lambda name, arguments: json.dumps([name, arguments]))
    assert list(tools) == ["search", "odd"]
    assert all(map(inspect.isfunction, tools.values()))
    assert tools["search"]("x", kind="new") == ["search", {"query": "x", "limit": 10, "kind": "new"}]
    assert tools["search"].__name__ == "search"


BAD = [
    ("search", "schema 2 is of type str"),
    ({}, "schema 2 has no name"),
    ({"name": 5}, "schema 2 has no name"),
    ({"type": "web_search_20250305", "name": "web"}, "schema 2 is of type 'web_search_20250305'"),
    ({"type": "function", "function": "search"}, "the function of schema 2 is of type str"),
    ({"name": "a", "description": 5}, "description of schema 2, 'a'"),
    ({"name": "a", "parameters": ["x"]}, "'parameters' of schema 2, 'a' is of type list"),
    ({"name": "a", "parameters": {"type": "array"}}, "schema 2, 'a' takes a 'array'"),
    ({"name": "a", "parameters": {"properties": ["x"]}}, "the properties of schema 2, 'a'"),
    ({"name": "a", "parameters": {"properties": {"x": "str"}}}, "the property 'x' of schema 2, 'a'"),
    ({"name": "a", "parameters": {"required": "x"}}, "'required' of schema 2, 'a' is not a list"),
    ({"name": "a", "parameters": {"required": [["x"]]}}, "'required' of schema 2, 'a' is not a list"),
    ({"name": "a", "parameters": {"required": ["x"]}}, "requires 'x', which is not among its properties"),
    ({"name": "search"}, "makes a tool 'search', and so does one before it"),
    ({"name": "class"}, "the tool name 'class' is not a Python identifier"),
    ({"name": "1st"}, "the tool name '1st' is not a Python identifier"),
    ({"name": "-x"}, "the tool name '_x' begins with an underscore"),
    ({"name": "retry"}, "the tool name 'retry' is reserved"),
]


def test_a_bad_schema_is_named():
    for bad, said in BAD:
        with pytest.raises(ValueError, match=re.escape(said)):
            tools_from_schemas([SEARCH, bad], print)


def test_handle_must_be_callable():
    with pytest.raises(TypeError, match="handle is of type dict"):
        tools_from_schemas([SEARCH], {})

from __future__ import annotations

import json

import pytest

from rpc import MAX_MESSAGE_BYTES, MessageError, Request, Response

REQUEST = Request("1", "tool", [1, "two"], {"three": [None, True, 0.5]}, "secret")
FIELDS = {"id": "1", "tool": "t", "args": [], "kwargs": {}, "token": "s"}


def test_a_request_comes_back_as_it_was():
    assert Request.decode(REQUEST.encode()) == REQUEST


def test_a_response_comes_back_as_it_was():
    for response in (Response("1", {"a": [1, None]}), Response("1"), Response("1", error="no")):
        assert Response.decode(response.encode()) == response


def test_a_message_is_one_ascii_line_whatever_text_it_holds():
    line = Response("1", "a\nb\r\n\0\u2028 é \ud800").encode()
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert Response.decode(line).result == "a\nb\r\n\0\u2028 é \ud800"


@pytest.mark.usefixtures("without_collector")
def test_invalid_json_is_refused():
    for line in (b"", b"{", b"\xff\xfe\x00", b"[" * 200_000, b'{"id": NaN}', REQUEST.encode()[:-5]):
        with pytest.raises(MessageError, match="not JSON"):
            Request.decode(line)


def test_a_field_that_is_missing_or_of_the_wrong_type_is_named():
    for name in FIELDS:
        fields = {key: value for key, value in FIELDS.items() if key != name}
        with pytest.raises(MessageError, match=f"no '{name}'"):
            Request.decode(json.dumps(fields).encode())
        with pytest.raises(MessageError, match=f"'{name}' is of type int"):
            Request.decode(json.dumps({**FIELDS, name: 7}).encode())


def test_a_message_that_is_no_object_is_refused():
    with pytest.raises(MessageError, match="a JSON list"):
        Request.decode(b"[]")


def test_an_id_that_is_empty_or_long_is_refused():
    for identity in ("", "x" * 1000):
        with pytest.raises(MessageError, match="'id' has"):
            Request.decode(json.dumps({**FIELDS, "id": identity}).encode())


def test_a_response_with_neither_result_nor_error_is_refused():
    with pytest.raises(MessageError, match="neither"):
        Response.decode(b'{"id": "1"}')


def test_a_line_above_the_limit_is_refused_before_it_is_parsed():
    with pytest.raises(MessageError, match="too large"):
        Request.decode(b" " * (MAX_MESSAGE_BYTES + 1))


def test_a_message_above_the_limit_is_not_written():
    with pytest.raises(MessageError, match="too large"):
        Response("1", "x" * MAX_MESSAGE_BYTES).encode()


def test_a_text_passes_even_when_half_of_it_is_escaped():
    text = 'x"' * 500_000
    assert Response.decode(Response("1", text).encode()).result == text


def test_a_value_that_json_cannot_carry_is_refused():
    loop = []
    loop.append(loop)
    for value in (b"bytes", {1}, object(), float("nan"), float("inf"), loop):
        with pytest.raises(MessageError, match="JSON can't carry"):
            Response("1", value).encode()


def test_values_are_counted_in_the_one_encoding_there_is():
    # In UTF-16 half of this character is a quote. After a quote, values are not counted.
    line = f'["\u2200",{"[]," * 300_000}1]'.encode("utf-16-le")
    with pytest.raises(MessageError, match=r"values|UnicodeDecodeError|JSONDecodeError"):
        Request.decode(line)

"""The values of a script for each kind of MCP result."""

from __future__ import annotations

import pytest
from mcp_types import BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent, ResourceLink, TextContent

from code_execution.mcp.results import ResultFiles, value_of

pytestmark = pytest.mark.xdist_group("mcp")

WRAPPED = {"properties": {"result": {"type": "integer"}}}
NOT_A_FILE = "only a script's call can have it as a file"


def value(result: CallToolResult, output_schema: dict[str, object] | None = None) -> object:
    return value_of(result, output_schema, ResultFiles(None))


STRUCTURED = [
    ({"result": 3}, WRAPPED, 3),
    ({"result": 3}, None, {"result": 3}),
    ({"result": 3}, {"properties": {"result": {}, "unit": {}}}, {"result": 3}),
    ({"result": 3, "unit": "m"}, WRAPPED, {"result": 3, "unit": "m"}),
    ([1, 2], None, [1, 2]),
    (0, None, 0),
]


def test_structured_content_is_unwrapped_only_where_an_sdk_has_wrapped_it() -> None:
    text = TextContent(text="the same as text")
    for structured, schema, given in STRUCTURED:
        assert value(CallToolResult(content=[text], structured_content=structured), schema) == given


def test_bytes_follow_structured_content() -> None:
    image = ImageContent(data="AAAA", mime_type="image/png")
    content, file = value(CallToolResult(content=[image], structured_content={"width": 1}))  # type: ignore[misc]
    assert content == {"width": 1} and NOT_A_FILE in file["error"]


def test_a_resource_link_has_its_uri_name_and_type() -> None:
    link = ResourceLink(uri="mem:/x", name="x", mime_type="text/plain")
    assert value(CallToolResult(content=[link])) == {"uri": "mem:/x", "name": "x", "mime_type": "text/plain"}


def test_an_empty_blob_is_a_file() -> None:
    empty = EmbeddedResource(resource=BlobResourceContents(uri="mem:/empty", blob=""))
    assert NOT_A_FILE in value(CallToolResult(content=[empty]))["error"]  # type: ignore[index]


FAILED: list[tuple[list[str], object, object]] = [
    (["one", "two"], None, {"error": "one\ntwo"}),
    (['{"error": "no such file"}'], {"error": "no such file", "path": "x"}, {"error": "no such file", "path": "x"}),
    (["no"], {"code": 3}, {"error": "no"}),
    ([], {"code": 3}, {"error": "{'code': 3}"}),
    ([], None, {"error": "the tool failed without an error message"}),
]


def test_an_error_is_returned_as_of_any_tool() -> None:
    for texts, structured, given in FAILED:
        content = [TextContent(text=text) for text in texts]
        assert value(CallToolResult(content=content, structured_content=structured, is_error=True)) == given

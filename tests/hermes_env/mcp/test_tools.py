from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from targets.figures import DRAWS_TWO, FIGURE
from targets.mcp_server import WebServer, run

from hermes_env.schemas.toolset import BUILT_IN

if TYPE_CHECKING:
    from mcp.client.client import Client

pytestmark = pytest.mark.xdist_group("mcp")

READ_ONLY = {"read_file", "search_files", "web_search", "web_extract"}


async def _called(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, and compare the result with the schema and the text."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    result = await client.call_tool(name, arguments)
    assert [json.loads(content.text) for content in result.content] == [result.structured_content]
    jsonschema.validate(result.structured_content, tools[name].output_schema)
    assert result.is_error == bool(result.structured_content.get("error"))
    return result.structured_content


def test_each_tool_is_listed_with_schemas_and_with_what_it_may_do(web_server: WebServer) -> None:
    async def test() -> None:
        async with web_server.client() as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == list(BUILT_IN)
        for name, tool in tools.items():
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
            assert tool.title and tool.description and tool.annotations
            assert tool.annotations.read_only_hint == (name in READ_ONLY)
            assert tool.annotations.destructive_hint == (name not in READ_ONLY)
        assert {name for name, tool in tools.items() if tool.annotations.open_world_hint} == {
            "terminal",
            "web_search",
            "web_extract",
            "execute_code",
        }

    run(test)


def test_each_tool_works(web_server: WebServer) -> None:
    async def test() -> None:
        async with web_server.client() as client:
            assert client.server_info.name == "hermes-env"
            assert (await _called(client, "terminal", command="mkdir -p below; cd below; pwd"))["exit_code"] == 0
            assert (await _called(client, "patch", mode="patch", patch=_PATCH))["files_added"] == 1
            assert (await _called(client, "read_file", path="poem"))["content"].endswith("|roses are red\n")
            (match,) = (await _called(client, "search_files", pattern="roses", path="."))["matches"]
            assert match["line"] == 1
            script = "from hermes_tools import terminal\nprint(terminal('basename $PWD; cat poem')['output'])"
            result = await _called(client, "execute_code", code=script)
            assert (result["status"], result["output"].split()) == ("success", ["below", "roses", "are", "red"])
            started = await _called(client, "terminal", command="echo behind", background=True)
            waited = await _called(client, "process", action="wait", process_id=started["process_id"], timeout=60)
            assert (waited["status"], waited["output"]) == ("exited", "behind\n")

    run(test)


_PATCH = """*** Begin Patch
*** Add File: poem
+roses are red
*** End Patch"""


def test_scripts_of_a_session_share_what_they_define_and_their_figures_are_images(web_server: WebServer) -> None:
    async def test() -> None:
        async with web_server.client() as client:
            await _called(client, "execute_code", code="x = 20", session=True)
            assert (await _called(client, "execute_code", code="x + 1", session=True))["value"] == "21"
            await _called(client, "execute_code", code="x = 30", session="other")
            assert (await _called(client, "execute_code", code="x", session=True))["value"] == "20"
            calls = "from hermes_tools import terminal\nterminal('echo in')['output'] * (x // 15)"
            assert (await _called(client, "execute_code", code=calls, session="other"))["value"] == repr("in\n" * 2)
            assert "NameError" in (await _called(client, "execute_code", code="x"))["output"]
            result = await client.call_tool("execute_code", {"code": DRAWS_TWO, "session": True})
            images = [content for content in result.content if content.type == "image"]
            assert [(image.mime_type, image.data) for image in images] == [
                ("image/png", base64.b64encode(FIGURE).decode())
            ] * 2
        async with web_server.client() as other:
            assert "NameError" in (await _called(other, "execute_code", code="x", session="other"))["output"]

    run(test)


def test_a_tools_failure_is_a_result_with_the_error(web_server: WebServer) -> None:
    async def test() -> None:
        async with web_server.client() as client:
            assert "no such file" in (await _called(client, "read_file", path="/absent"))["error"]
            assert "at least 1" in (await _called(client, "web_search", query="roses", limit=0))["error"]
            assert "wrong arguments: 'command' is missing" in (await _called(client, "terminal"))["error"]
            (page,) = (await _called(client, "web_extract", urls=["http://127.0.0.1:9/"]))["results"]
            assert page["error"]
            assert (await _called(client, "execute_code", code="raise SystemExit(3)"))["exit_code"] == 3
            many = "from hermes_tools import terminal\nfor n in range(51): terminal(':')"
            assert "limit of 50 tool calls" in (await _called(client, "execute_code", code=many))["limit"]
            assert (await _called(client, "terminal", command="exit 3")) == {
                "output": "",
                "exit_code": 3,
                "error": None,
            }

    run(test)

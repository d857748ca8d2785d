from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from targets.awaiting import until
from targets.mcp_server import WebServer, run

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp.client.session import ClientRequestContext
    from mcp.types import ElicitRequestParams, ElicitResult

pytestmark = pytest.mark.xdist_group("mcp")

ASKED = "touch asked for; echo done"


class User:
    """Answers a client's elicitations in turn."""

    def __init__(self, *answers: str | None) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)

    async def answer(self, context: ClientRequestContext, form: ElicitRequestParams) -> ElicitResult:
        from mcp.types import ElicitResult

        self.asked.append(form.message)
        if not self._answers:
            await anyio.sleep_forever()
        decision = self._answers.pop(0)
        if decision is None:
            return ElicitResult(action="decline")
        assert decision in form.requested_schema["properties"]["decision"]["enum"]
        return ElicitResult(action="accept", content={"decision": decision})


async def _result(client: Client, command: str = ASKED) -> dict[str, Any]:
    result = await client.call_tool("terminal", {"command": command})
    return dict(result.structured_content)


DENIED = {"output": "", "exit_code": 126, "error": "denied: it was not approved (a rule names it (touch asked*))"}


def test_a_client_with_elicitation_is_asked_each_time_or_once_for_the_session(web_server: WebServer) -> None:
    user = User("allow once", "deny", None, "allow for this session", "deny")

    async def test() -> None:
        async with web_server.client(elicitation_callback=user.answer) as client:
            assert (await _result(client))["output"] == "done\n"
            assert await _result(client) == DENIED
            assert await _result(client) == DENIED
            assert (await _result(client))["output"] == "done\n"
            assert (await _result(client))["output"] == "done\n"
            assert (await _result(client, "touch asked otherwise"))["exit_code"] == 126

    run(test)
    assert len(user.asked) == 5
    assert user.asked[0].startswith("Approval is asked for: a rule names it (touch asked*)")
    assert user.asked[0].endswith(ASKED)


def test_a_scripts_tool_call_is_asked_about_too(web_server: WebServer) -> None:
    user = User("allow for this session")
    code = "from hermes_tools import write_file\nfor n in range(2): print(write_file(f'written {n}', 'x')['created'])"

    async def test() -> None:
        async with web_server.client(elicitation_callback=user.answer) as client:
            result = await client.call_tool("execute_code", {"code": code})
            assert result.structured_content["output"] == "True\nTrue\n"

    run(test)
    assert user.asked == [
        "Approval is asked for: a rule names the tool (write_file)\n\nwrite_file(path='written 0', content='x')"
    ]


def test_a_client_without_elicitation_gets_a_denial(web_server: WebServer) -> None:
    async def test() -> None:
        async with web_server.client() as client:
            assert "the client has no way to ask for it" in (await _result(client))["error"]

    run(test)


def test_a_question_is_taken_back_when_the_call_is_cancelled(web_server: WebServer) -> None:
    user = User()

    async def test() -> None:
        async with web_server.client(elicitation_callback=user.answer) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(_result, client)
                await until(lambda: bool(user.asked))
                group.cancel_scope.cancel()
            assert (await _result(client, "echo usable"))["output"] == "usable\n"

    run(test)

"""A scenario with the Python SDK's client. Argument and output are JSON, see `clients.py`."""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import anyio
from mcp.client import stdio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitResult

GIVEN = json.loads(sys.argv[1])
stdio.PROCESS_TERMINATION_TIMEOUT = 60  # seconds, as the machine may be loaded


class Session:
    """A client, and the notifications to the client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        return await self.client.call_tool(tool, arguments)

    async def output(self, command: str) -> str:
        text = (await self.call("terminal", command=command)).structured_content["output"]
        assert isinstance(text, str)
        return text


LOGGED: list[Any] = []
ASKED: list[str] = []


async def tour(session: Session) -> dict[str, Any]:
    command = await session.call("terminal", command="echo there; exit 3")
    failed = await session.call("read_file", path="not-there")
    try:
        await session.call("nothing")
        unknown: tuple[int, str] = (0, "")
    except MCPError as error:
        unknown = (error.code, error.message)
    return {
        "name": session.client.server_info.name,
        "tools": [tool.name for tool in (await session.client.list_tools()).tools],
        "command": command.structured_content,
        "script": (await session.call("execute_code", code="print(6 * 7)")).structured_content["output"],
        "failed": (failed.is_error, failed.structured_content["error"]),
        "unknown": unknown,
    }


async def cancel(session: Session) -> dict[str, Any]:
    ended = "cancelled"

    async def call() -> None:
        nonlocal ended
        await session.call("execute_code", code=GIVEN["code"])
        ended = "answered"

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        while not any("begun" in str(data) for data in LOGGED):
            await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    return {"ended": ended, "next": await session.output("echo next")}


async def progress(session: Session) -> dict[str, Any]:
    told: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    command = {"command": GIVEN["command_text"]}
    result = await session.client.call_tool("terminal", command, progress_callback=note)
    return {"output": result.structured_content["output"], "told": told, "logged": LOGGED}


async def elicitation(session: Session) -> dict[str, Any]:
    result = await session.call("terminal", command="touch asked && echo done")
    return {"asked": ASKED, "result": result.structured_content}


async def pause(session: Session) -> dict[str, Any]:
    await session.output("kept=kept; cd /")
    await anyio.sleep(GIVEN["pause"])
    first = await session.output("echo $kept; pwd")
    await anyio.sleep(GIVEN["pause"])
    several: list[str] = []

    async def call() -> None:
        several.append((await session.call("execute_code", code="print(1)")).structured_content["output"])

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(call)
    return {"first": first, "several": several}


async def main() -> None:
    async def log(message: Any) -> None:
        LOGGED.append(message.data)

    async def answer(context: Any, params: Any) -> ElicitResult:
        ASKED.append(params.message)
        return ElicitResult(action="accept", content={"decision": GIVEN["answer"]})

    options: dict[str, Any] = {"logging_callback": log}
    if GIVEN["answer"]:
        options["elicitation_callback"] = answer
    async with AsyncExitStack() as stack:
        if GIVEN["url"]:
            headers = {"Authorization": f"Bearer {GIVEN['token']}"}
            http = await stack.enter_async_context(create_mcp_http_client(headers))
            transport: Any = streamable_http_client(GIVEN["url"], http_client=http)
        else:
            command, *arguments = GIVEN["command"]
            transport = stdio_client(StdioServerParameters(command=command, args=arguments, env=GIVEN["env"]))
        client = await stack.enter_async_context(Client(transport, **options))
        scenario = {each.__name__: each for each in (tour, cancel, progress, elicitation, pause)}[GIVEN["scenario"]]
        print(json.dumps(await scenario(Session(client))))


anyio.run(main)

"""An MCP server with tools of every kind. Over stdio; with `http TOKEN` over HTTP, and its URL is printed."""

from __future__ import annotations

import base64
import os
import socket
import sys
from pathlib import Path
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.utilities.types import Image
from mcp_types import BlobResourceContents, CallToolResult, EmbeddedResource, TextContent, TextResourceContents
from pydantic import Field
from starlette.responses import PlainTextResponse

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
server = MCPServer("tools of ours", log_level="CRITICAL")


@server.tool()
def add(first: int, second: int = 2) -> int:
    """Add two numbers."""
    return first + second


@server.tool(name="find-orders")
def find_orders(customer: Annotated[str, Field(description="Who has ordered.")]) -> dict[str, Any]:
    """Find the orders of a customer."""
    return {"customer": customer, "orders": [1, 2]}


@server.tool(structured_output=False)
def as_text() -> str:
    """Return text that is JSON."""
    return '{"a": 1}'


@server.tool()
def picture() -> Image:
    """Draw a picture."""
    return Image(data=PICTURE, format="png")


@server.tool()
def report() -> CallToolResult:
    """Return text and embedded resources."""
    blob = BlobResourceContents(uri="mem:/blob", blob=base64.b64encode(b"\0\1").decode(), mime_type="text/plain")
    text = TextResourceContents(uri="mem:/text", text="words", mime_type="text/plain")
    return CallToolResult(
        content=[
            TextContent(text="see below"),
            EmbeddedResource(resource=blob),
            EmbeddedResource(resource=text),
        ]
    )


@server.tool(structured_output=False)
def nothing() -> None:
    """Return nothing."""


@server.tool()
def fail(why: str) -> CallToolResult:
    """Fail."""
    return CallToolResult(content=[TextContent(text=why)], is_error=True)


@server.tool()
def variables() -> dict[str, str]:
    """Return this process's environment variables and id."""
    return {**os.environ, "PID": str(os.getpid())}


@server.tool()
async def wait(marks: str) -> str:
    """Wait until the call is cancelled. Files mark the beginning and the cancellation."""
    path = Path(marks)
    path.with_suffix(".begun").touch()
    try:
        await anyio.sleep_forever()
    finally:
        path.with_suffix(".cancelled").touch()
    raise AssertionError


@server.tool()
def die() -> str:
    """End the server in the middle of a call."""
    os._exit(3)


def serve_http(token: str) -> None:
    app = server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers") or ())
        if scope["type"] == "http" and headers.get(b"authorization") != f"Bearer {token}".encode():
            await PlainTextResponse("who are you?", 401)(scope, receive, send)
        else:
            await app(scope, receive, send)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        uvicorn.Server(uvicorn.Config(guarded, log_level="warning", ws="none")).run([listening])


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        serve_http(sys.argv[2])
    else:
        server.run()

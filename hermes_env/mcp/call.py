"""One call of a tool: run in a thread, told of while it runs, and ended in the target when nobody waits for it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal
from mcp.server.context import ServerRequestContext
from mcp.types import CallToolResult, ContentBlock, ElicitResult, ImageContent, TextContent

from hermes_env.aio.calls import in_thread
from hermes_env.mcp.consents import FORM, can_ask
from hermes_env.mcp.news import News
from hermes_env.mcp.running import working_for
from hermes_env.mcp.served_client import ServedClient
from hermes_env.schemas.answers import error_answer
from hermes_env.schemas.calls import answer_in

GONE = "hermes_env.gone"
"""In the scope of an HTTP request: an event that is set when its call is to end, as nobody waits for the answer."""


class Call:
    """A call while it runs.

    Args:
        client: Who calls.
        context: The request.
        tool: The tool's name.
    """

    def __init__(self, client: ServedClient, context: ServerRequestContext[Any, Any], tool: str) -> None:
        self._client = client
        self._context = context
        self._portal = BlockingPortal()
        self.tool = tool
        """The tool's name."""
        self.news = News(context, tool, client.wants)
        """Told to the client while it runs."""

    async def answer(self, arguments: Mapping[str, object] | None) -> CallToolResult:
        """Run the tool and return its answer. When the task is cancelled, what it does in the target ends first."""
        text = error_answer("it was ended, as the session is")
        images: list[bytes] = []
        self._client.calls = (*self._client.calls, self)
        try:
            async with anyio.create_task_group() as group, self._portal:
                group.start_soon(self.news.tell)
                group.start_soon(self._end_when_gone, group)
                try:
                    async with self._client.limiter:
                        text = await in_thread(partial(self._work, arguments, images))
                    await self.news.tell_rest()
                finally:
                    await self._portal.stop(cancel_remaining=True)
                group.cancel_scope.cancel()
        finally:
            self._client.calls = tuple(call for call in self._client.calls if call is not self)
        return _result(text, images)

    def _work(self, arguments: Mapping[str, object] | None, images: list[bytes]) -> str:
        with working_for(self):
            client, tools = self._client, self._client.offer.tools
            return answer_in(client.environment, tools, self.tool, arguments, self.news.output, images.extend)

    async def _end_when_gone(self, group: TaskGroup) -> None:
        """End the call when its HTTP request is cut off, as its answer can be given to nobody, or the server ends."""
        gone = self._context.request.scope.get(GONE) if self._context.request else None
        if isinstance(gone, anyio.Event):
            await gone.wait()
            group.cancel_scope.cancel()

    @property
    def can_ask(self) -> bool:
        """Whether the client can show its user a form."""
        return can_ask(self._context.session.client_capabilities)

    def ask(self, text: str) -> Future[ElicitResult]:
        """Have the client show its user a text with a form, from any thread. It is taken back when the call ends.

        Raises:
            RuntimeError: The call has ended.
        """
        show: Callable[..., Any] = self._context.session.elicit_form
        return self._portal.start_task_soon(show, text, FORM, self._context.request_id)


def _result(text: str, images: Sequence[bytes]) -> CallToolResult:
    value = json.loads(text)
    content: list[ContentBlock] = [TextContent(type="text", text=text)]
    for image in images:
        content.append(ImageContent(type="image", data=base64.b64encode(image).decode(), mime_type="image/png"))
    return CallToolResult(content=content, structured_content=value, is_error=bool(value.get("error")))

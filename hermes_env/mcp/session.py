"""The session of a client: the environment, the running tool calls, and the user's approvals."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal
from mcp.server.context import ServerRequestContext
from mcp.types import CallToolResult, ContentBlock, ElicitResult, ImageContent, LoggingLevel, TextContent

from environments import BaseEnvironment
from environments.approvals import Deny, Request
from environments.errors import TerminalError
from environments.loop import in_worker
from environments.progress import Progress
from hermes_env.aio.calls import in_thread, run_to_end
from hermes_env.mcp.capabilities import ServedCapabilities
from hermes_env.mcp.elicitation import FORM, Approvals, has_forms
from hermes_env.mcp.notifications import LEVEL, Notifications
from hermes_env.schemas.answers import error_answer
from hermes_env.schemas.calls import answer_in

Context = ServerRequestContext[Any, Any]
MAX_CALLS = 16
"""The number of concurrent calls per client. Further calls wait."""
DISCONNECTED = "hermes_env.disconnected"
"""In the scope of an HTTP request: an event, set when the answer can no longer be delivered."""
_KEY = "hermes-env session"


class McpSession:
    """The session of a client. The first call makes the environment; the end of the session cleans up.

    Args:
        capabilities: The tools and the environment of the client.
    """

    def __init__(self, capabilities: ServedCapabilities) -> None:
        self.capabilities = capabilities
        self.level: LoggingLevel = LEVEL
        """The lowest level of log messages for the client."""
        self.limiter = anyio.CapacityLimiter(MAX_CALLS)
        """Limits the concurrent calls."""
        self.calls: tuple[RunningCall, ...] = ()
        """The running calls. The tuple is replaced and never changed, so any thread may iterate over the calls."""
        self._approvals = Approvals()
        self._lock = threading.Lock()
        self._environment: BaseEnvironment | None = None
        self._is_closed = False

    @classmethod
    def of(cls, context: Context, capabilities: ServedCapabilities) -> McpSession:
        """Return the session of a request. A client's first request makes the session.

        Args:
            context: The request.
            capabilities: For a new session.
        """
        # The SDK has no public access from a request to the state of its connection.
        connection = context.session._connection
        session = connection.state.get(_KEY)
        if session is None:
            session = connection.state[_KEY] = cls(capabilities)
            connection.exit_stack.push_async_callback(session.close)
        assert isinstance(session, McpSession)
        return session

    def environment(self) -> BaseEnvironment:
        """Return the environment. Thread-safe.

        Raises:
            TerminalError: The environment cannot be made, or the session has ended.
        """
        with self._lock:
            if self._is_closed:
                raise TerminalError("the session has ended; begin a new one")
            if self._environment is None:
                self._environment = self.capabilities.environment(self._approve, self._notify)
            return self._environment

    async def close(self) -> None:
        """Clean up the environment, also in a cancelled task."""
        await run_to_end(lambda _: in_worker(self._clean_up))

    def _clean_up(self) -> None:
        with self._lock:
            self._is_closed = True
            environment, self._environment = self._environment, None
        if environment:
            environment.cleanup()

    def _notify(self, progress: Progress) -> None:
        self.capabilities.on_progress(progress)
        for call in self.calls:  # all calls may wait for the same start
            call.notifications.step(progress)

    def _approve(self, request: Request, question: str) -> bool | Deny:
        call = _call.get()
        return self._approvals.decide(request, question, call.show_form if call and call.has_forms else None)


class RunningCall:
    """A running call of a tool.

    Args:
        session: The session of the client.
        context: The request.
        tool: The tool's name.
    """

    def __init__(self, session: McpSession, context: Context, tool: str) -> None:
        self._session, self._context, self._tool = session, context, tool
        self._portal = BlockingPortal()
        self.notifications = Notifications(context, tool, lambda: session.level)
        """The notifications to the client during the call."""
        self.has_forms = has_forms(context.session.client_capabilities)
        """True if the client can show forms."""

    async def result(self, arguments: Mapping[str, object] | None) -> CallToolResult:
        """Run the tool in a worker thread, and return the result. Cancellation first ends the work in the target."""
        session = self._session
        text = error_answer("the call was ended, because the session has ended")
        images: list[bytes] = []
        session.calls = (*session.calls, self)
        _call.set(self)  # for this task, which serves only this request, and for its worker threads
        try:
            async with anyio.create_task_group() as group, self._portal:
                group.start_soon(self.notifications.send_at_intervals)
                group.start_soon(self._cancel_when_disconnected, group.cancel_scope)
                try:
                    async with session.limiter:
                        text = await in_thread(partial(self._answer, arguments, images))
                    await self.notifications.send()
                finally:
                    await self._portal.stop(cancel_remaining=True)
                group.cancel_scope.cancel()
        finally:
            session.calls = tuple(call for call in session.calls if call is not self)
        return _result(text, images)

    def _answer(self, arguments: Mapping[str, object] | None, images: list[bytes]) -> str:
        session, output = self._session, self.notifications.output
        return answer_in(session.environment, session.capabilities.tools, self._tool, arguments, output, images.extend)

    async def _cancel_when_disconnected(self, scope: anyio.CancelScope) -> None:
        disconnected = self._context.request.scope.get(DISCONNECTED) if self._context.request else None
        if isinstance(disconnected, anyio.Event):
            await disconnected.wait()
            scope.cancel()

    def show_form(self, text: str) -> Future[ElicitResult]:
        """Request the client to show the form of approvals with a text. Thread-safe. The end of the call withdraws it.

        Raises:
            RuntimeError: The call has ended.
        """
        show: Callable[..., Any] = self._context.session.elicit_form
        return self._portal.start_task_soon(show, text, FORM, self._context.request_id)


_call: ContextVar[RunningCall | None] = ContextVar("hermes_mcp_call", default=None)
"""The call of the current task or thread."""


def _result(text: str, images: Sequence[bytes]) -> CallToolResult:
    value = json.loads(text)
    content: list[ContentBlock] = [TextContent(type="text", text=text)]
    for image in images:
        content.append(ImageContent(type="image", data=base64.b64encode(image).decode(), mime_type="image/png"))
    return CallToolResult(content=content, structured_content=value, is_error=bool(value.get("error")))

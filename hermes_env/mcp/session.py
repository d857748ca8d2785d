"""The session of one client: its environment, its calls of tools, and its user's approvals."""

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
from hermes_env.aio.calls import in_thread, to_its_end
from hermes_env.mcp.capabilities import ClientCapabilities
from hermes_env.mcp.elicitation import FORM, Approvals, has_forms
from hermes_env.mcp.notifications import LEVEL, Notifications
from hermes_env.schemas.answers import error_answer
from hermes_env.schemas.calls import answer_in

Context = ServerRequestContext[Any, Any]
MAX_CALLS = 16
"""How many calls of one client run side by side. Further ones wait."""
GONE = "hermes_env.gone"
"""In the scope of an HTTP request: an event that is set when the answer can no longer be delivered."""
_KEY = "hermes-env session"


class Session:
    """The session of one client. Its environment is made with its first call, and cleaned up at its end.

    Args:
        capabilities: The tools and the environment of the client.
    """

    def __init__(self, capabilities: ClientCapabilities) -> None:
        self.capabilities = capabilities
        self.level: LoggingLevel = LEVEL
        """The level below which the client takes no log messages."""
        self.limiter = anyio.CapacityLimiter(MAX_CALLS)
        """Bounds its calls."""
        self.calls: tuple[ToolCall, ...] = ()
        """Those that run. The tuple is replaced and never changed: any thread may iterate over it."""
        self._approvals = Approvals()
        self._lock = threading.Lock()
        self._environment: BaseEnvironment | None = None
        self._is_closed = False

    @classmethod
    def of(cls, context: Context, capabilities: ClientCapabilities) -> Session:
        """Return the session of a request; the first request of a client makes it.

        Args:
            context: The request.
            capabilities: For a new session.
        """
        # The SDK has no public way from a request to the state of its connection.
        connection = context.session._connection
        session = connection.state.get(_KEY)
        if session is None:
            session = connection.state[_KEY] = cls(capabilities)
            connection.exit_stack.push_async_callback(session.close)
        assert isinstance(session, Session)
        return session

    def environment(self) -> BaseEnvironment:
        """Return its environment, from any thread.

        Raises:
            TerminalError: It cannot be made, or the session has ended.
        """
        with self._lock:
            if self._is_closed:
                raise TerminalError("the session has ended; begin a new one")
            if self._environment is None:
                self._environment = self.capabilities.environment(self._approve, self._notify)
            return self._environment

    async def close(self) -> None:
        """Clean up its environment, also in a task that is cancelled."""
        await to_its_end(lambda _: in_worker(self._clean_up))

    def _clean_up(self) -> None:
        with self._lock:
            self._is_closed = True
            environment, self._environment = self._environment, None
        if environment:
            environment.cleanup()

    def _notify(self, progress: Progress) -> None:
        self.capabilities.on_progress(progress)
        for call in self.calls:  # all of them may wait for the same start
            call.notifications.step(progress)

    def _approve(self, request: Request, question: str) -> bool | Deny:
        call = _call.get()
        return self._approvals.decide(request, question, call.show_form if call and call.has_forms else None)


class ToolCall:
    """A call of a tool while it runs.

    Args:
        session: The session of its client.
        context: The request.
        tool: The tool's name.
    """

    def __init__(self, session: Session, context: Context, tool: str) -> None:
        self._session, self._context, self._tool = session, context, tool
        self._portal = BlockingPortal()
        self.notifications = Notifications(context, tool, lambda: session.level)
        """Sent to the client while it runs."""
        self.has_forms = has_forms(context.session.client_capabilities)
        """Whether the client can show its user a form."""

    async def result(self, arguments: Mapping[str, object] | None) -> CallToolResult:
        """Run the tool in a worker thread and return its result. Cancelled, its work in the target ends first."""
        session = self._session
        text = error_answer("it was ended, as the session is")
        images: list[bytes] = []
        session.calls = (*session.calls, self)
        _call.set(self)  # of this task, which is the request's own, and of the threads that work for it
        try:
            async with anyio.create_task_group() as group, self._portal:
                group.start_soon(self.notifications.send_at_intervals)
                group.start_soon(self._cancel_when_gone, group.cancel_scope)
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

    async def _cancel_when_gone(self, scope: anyio.CancelScope) -> None:
        gone = self._context.request.scope.get(GONE) if self._context.request else None
        if isinstance(gone, anyio.Event):
            await gone.wait()
            scope.cancel()

    def show_form(self, text: str) -> Future[ElicitResult]:
        """Have the client show a text with the form of approvals, from any thread. The end of the call withdraws it.

        Raises:
            RuntimeError: The call has ended.
        """
        show: Callable[..., Any] = self._context.session.elicit_form
        return self._portal.start_task_soon(show, text, FORM, self._context.request_id)


_call: ContextVar[ToolCall | None] = ContextVar("hermes_mcp_call", default=None)
"""The call that the current task or thread works for."""


def _result(text: str, images: Sequence[bytes]) -> CallToolResult:
    value = json.loads(text)
    content: list[ContentBlock] = [TextContent(type="text", text=text)]
    for image in images:
        content.append(ImageContent(type="image", data=base64.b64encode(image).decode(), mime_type="image/png"))
    return CallToolResult(content=content, structured_content=value, is_error=bool(value.get("error")))

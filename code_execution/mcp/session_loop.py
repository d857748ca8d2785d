"""The event loop that a session lives on, for calls that come from other threads. On asyncio and on trio."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import anyio
import anyio.from_thread
from anyio.lowlevel import EventLoopToken, current_token

from environments.cancellation import ended_in_scope
from environments.errors import CallCancelledError, TerminalError

T = TypeVar("T")


class SessionLoop:
    """The loop of the thread that makes this.

    Raises:
        ValueError: There is none in this thread.
    """

    def __init__(self) -> None:
        token = _running_here()
        if token is None:
            raise ValueError(
                "mcp_tools has to be called where the session is open, in async code, and there is no event loop in "
                "this thread; with one in another thread, call it there: portal.call(mcp_tools, session)"
            )
        self._token = token

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await something on the loop, and wait for it. It is cancelled there with the scope of this thread.

        Raises:
            ValueError: This is the loop's own thread, which would wait for itself.
            CallCancelledError: The scope was cancelled.
            TerminalError: The loop has ended.
            Exception: What the awaitable raised.
        """
        here = _running_here()
        if here and here.native_token is self._token.native_token:
            raise ValueError(
                "the MCP session lives on this thread's event loop, which would wait for itself; run execute_code in "
                "another thread (await anyio.to_thread.run_sync(...)), or await hermes_env.aio.aexecute_code; for the "
                "tools as a mapping in async code, await mcp_tools(session)"
            )
        call = _Call(work, self._token)
        with ended_in_scope(call.cancel):
            try:
                return anyio.from_thread.run(call.settled, token=self._token)
            except anyio.RunFinishedError:
                raise TerminalError("the event loop of the MCP session has ended; open the session anew") from None


def _running_here() -> EventLoopToken | None:
    try:
        return current_token()
    except RuntimeError:  # no loop runs in this thread
        return None


class _Call(Generic[T]):
    """One thing that is awaited on a loop, and can be cancelled from any thread."""

    def __init__(self, work: Callable[[], Awaitable[T]], token: EventLoopToken) -> None:
        self._work = work
        self._token = token
        self._cancelled = False
        self._scope: anyio.CancelScope | None = None

    async def settled(self) -> T:
        with anyio.CancelScope() as self._scope:
            self._cancel_if_asked()  # which may have been before this began
            return await self._work()
        raise CallCancelledError("the call of an MCP tool was cancelled, as nobody waits for it any more")

    def cancel(self) -> None:
        """Have it cancelled, and do not wait for that: the loop may be busy."""
        self._cancelled = True
        loop: Any = self._token.native_token
        soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon  # asyncio's, or trio's
        with contextlib.suppress(RuntimeError):  # the loop has ended
            soon(self._cancel_if_asked)

    def _cancel_if_asked(self) -> None:
        if self._cancelled and self._scope:
            self._scope.cancel()

"""The event loop of who called: where what a thread has to await is awaited."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import ParamSpec

import anyio
import anyio.from_thread
from anyio.lowlevel import current_token

from environments import CallCancelledError
from environments.cancellation import ended_in_scope
from environments.contexts import holding

_P = ParamSpec("_P")
_Settled = tuple[object, BaseException | None]


class HomeLoop:
    """The running event loop, for the threads that do one call's work. Make it on the loop.

    Coroutines of the call run beside the task that awaits it, and none of them outlives it.
    """

    def __init__(self) -> None:
        outer = _current.get()
        self.depth: int = outer.depth + 1 if outer else 0
        """How many calls, each of which has a thread, wait for this one."""
        self._token = current_token()
        self._thread = threading.get_ident()
        self._running: set[_Coroutine] = set()  # changed on the loop alone
        self._ended: anyio.Event | None = None
        self.is_closed = False
        """Whether the call is over."""

    def active(self) -> AbstractContextManager[None]:
        """Make this the home of everything that the current thread does in the block."""
        return holding(_current, self)

    def soon(self, function: Callable[[], object]) -> bool:
        """Have a function called on the loop, from any thread, and wait for nothing. False if the loop has ended."""
        native = self._token.native_token
        hand_over = getattr(native, "run_sync_soon", None) or getattr(native, "call_soon_threadsafe", None)
        assert hand_over, "asyncio and trio have one of these"
        try:
            hand_over(function)
        except RuntimeError:
            return False
        return True

    def result_of(self, awaitable: Awaitable[object]) -> object:
        """Await something on the loop, with the context variables of this thread, and return what comes of it.

        Raises:
            BaseException: What the awaitable raised.
            CallCancelledError: The call is over, or the scope of this thread was cancelled.
        """
        coroutine = _Coroutine(self, awaitable)
        if self.is_closed or threading.get_ident() == self._thread:
            coroutine.close()
            raise CallCancelledError("nothing more is awaited: the call that it belongs to is over")
        with ended_in_scope(coroutine.cancel):
            result, error = anyio.from_thread.run(coroutine.settle, token=self._token)
        if error is not None:
            raise error
        return result

    def begun(self, coroutine: _Coroutine) -> None:
        """Note a coroutine that begins on the loop."""
        self._running.add(coroutine)

    def ended(self, coroutine: _Coroutine) -> None:
        """Note that it has ended."""
        self._running.discard(coroutine)
        if self._ended and not self._running:
            self._ended.set()

    def cancel(self) -> None:
        """Have all coroutines end, and let no more begin. Called on the loop."""
        self.is_closed = True
        for coroutine in list(self._running):
            coroutine.cancel()

    async def close(self) -> None:
        """Do the same, and wait for them."""
        self.cancel()
        if self._running:
            self._ended = anyio.Event()
            await until(self._ended)


class _Coroutine:
    """Something that is awaited on the loop for a thread."""

    def __init__(self, home: HomeLoop, awaitable: Awaitable[object]) -> None:
        self._home = home
        self._awaitable = awaitable
        self._scope: anyio.CancelScope | None = None
        self._is_cancelled = False

    async def settle(self) -> _Settled:
        """Await it, and return what it returns or raises."""
        if self._is_cancelled or self._home.is_closed:
            self.close()
            return None, self._cancelled_error()
        self._home.begun(self)
        try:
            with anyio.CancelScope() as self._scope:
                return await self._awaitable, None
        except (Exception, SystemExit) as error:
            return None, error
        finally:
            self._home.ended(self)
        return None, self._cancelled_error()  # the scope takes its own cancellation

    def cancel(self) -> None:
        """Cancel it, from any thread."""
        self._is_cancelled = True
        self._home.soon(self._cancel_scope)

    def close(self) -> None:
        """Give up what was never begun, of which Python would warn."""
        if inspect.iscoroutine(self._awaitable):
            self._awaitable.close()

    def _cancel_scope(self) -> None:
        if self._scope:
            self._scope.cancel()

    @staticmethod
    def _cancelled_error() -> CallCancelledError:
        return CallCancelledError("what was awaited for the call was cancelled, as the call is over")


_current: ContextVar[HomeLoop | None] = ContextVar("hermes_home_loop", default=None)


def current_home() -> HomeLoop | None:
    """Return the home of what the current thread or task does, if it does it for a call that is awaited."""
    return _current.get()


def awaited_at_home(callback: Callable[_P, object]) -> Callable[_P, object]:
    """Return a function that does what a callback does; what that returns to be awaited is awaited on the home loop.

    Args:
        callback: Any function, `async def` included. It is called in a thread.
    """

    @functools.wraps(callback)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> object:
        result = callback(*args, **kwargs)
        if not inspect.isawaitable(result):
            return result
        home = bound or current_home()
        if home is None:
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError(f"{callback!r} has to be awaited, and was called by what is not awaited itself")
        return home.result_of(result)

    bound = current_home()
    return call


async def until(event: anyio.Event) -> None:
    """Wait for an event, whatever cancels the task meanwhile."""
    with anyio.CancelScope(shield=True):
        while not event.is_set():
            with contextlib.suppress(anyio.get_cancelled_exc_class()):  # asyncio's own way passes every shield
                await event.wait()

"""What takes its time, done in a thread and awaited. Cancelled, it is ended in the target before the await returns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

import anyio
import anyio.to_thread

from environments import CancelScope
from environments.cancellation import Remains, current_scope, ended_in_scope, in_no_scope
from hermes_env.aio.home import HomeLoop

T = TypeVar("T")
_RemainsT = TypeVar("_RemainsT", bound=Remains)


async def in_thread(call: Callable[[], T], *, limiter: anyio.CapacityLimiter, scope: CancelScope | None = None) -> T:
    """Call a function in a worker thread, and return what it returns.

    When the task is cancelled, what the function does in a target is ended there, and the thread is waited for,
    whatever else cancels the task meanwhile. What the function returns is then lost. No thread is ever left alone.

    Args:
        call: The function. It sees the context variables of the task. Coroutines of its callbacks are awaited on the
            task's loop, see `awaited_at_home`.
        limiter: Bounds how many threads work at once. The task waits for its turn.
        scope: What the function works in, cancelled with the task; None makes one, which ends with that of the caller.

    Raises:
        Exception: What the function raises.
    """
    chosen, home = scope or scope_of_caller(), HomeLoop()

    def work() -> T:
        with working(chosen, home):
            return call()

    return await _in_task(work, home, limiter, chosen.cancel)


async def to_its_end(call: Callable[[], T], *, limiter: anyio.CapacityLimiter) -> T:
    """Call a function in a worker thread, to its end also when the task is cancelled, as what cleans up has to be.

    The cancellation is then raised behind it. Arguments and errors are those of `in_thread`.
    """

    home = HomeLoop()

    def work() -> T:
        with in_no_scope(), home.active():
            return call()

    return await _in_task(work, home, limiter, lambda: None, shield=True)


async def _in_task(
    work: Callable[[], T],
    home: HomeLoop,
    limiter: anyio.CapacityLimiter,
    on_cancel: Callable[[], None],
    *,
    shield: bool = False,
) -> T:
    """Have a task of its own wait for the thread: what cancels this one, asyncio's own way too, does not reach it."""
    outcome: Future[T] = Future()
    stopped: list[BaseException] = []
    over = anyio.Event()

    def note_outcome() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    async def wait_for_thread() -> None:
        try:
            with anyio.CancelScope(shield=shield):
                await anyio.to_thread.run_sync(note_outcome, limiter=limiter)  # shielded once the thread has begun
        finally:
            over.set()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(wait_for_thread)
            try:
                await over.wait()
            except BaseException as error:
                on_cancel()
                if isinstance(error, anyio.get_cancelled_exc_class()):
                    raise
                stopped.append(error)  # control-C in trio, which would be raised as one of a group
    finally:
        await home.close()
    if stopped:
        raise stopped[0]
    return outcome.result(timeout=0)


@contextlib.contextmanager
def working(scope: CancelScope, home: HomeLoop) -> Iterator[None]:
    """Let the current thread work in a scope, which ends with the one it is in, and for a loop."""
    linked = contextlib.nullcontext() if scope is current_scope() else ended_in_scope(scope.cancel)
    with linked, scope.active(), home.active():
        yield


class _InnerScope(CancelScope):
    """A scope within another, which is to end what this one leaves behind."""

    def __init__(self, outer: CancelScope) -> None:
        super().__init__(is_trusted=outer.is_trusted)
        self._outer = outer

    def remains(self, key: object, make: Callable[[], _RemainsT]) -> _RemainsT:
        """Return what notes what may be left, see `CancelScope`."""
        return self._outer.remains(key, make)


def scope_of_caller() -> CancelScope:
    """Return a scope of its own for a call, within that of the current task if there is one."""
    outer = current_scope()
    return _InnerScope(outer) if outer else CancelScope()

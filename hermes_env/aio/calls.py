"""How a method of an environment becomes one that is awaited, with the same name and parameters."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from environments import TerminalError
from environments.contexts import holding
from hermes_env.aio.home import awaited_at_home
from hermes_env.aio.pools import Work, limiter_for
from hermes_env.aio.threads import in_thread, to_its_end

_P = ParamSpec("_P")
_R = TypeVar("_R")
CALLBACKS = ("on_output",)
"""Arguments that may be coroutine functions."""


class Wrapper(Protocol):
    """What has something beneath that is not awaited."""

    @property
    def sync(self) -> object:
        """What is beneath."""


def awaited(
    method: Callable[Concatenate[Any, _P], _R], work: Work = Work.COMMAND
) -> Callable[Concatenate[Wrapper, _P], Coroutine[Any, Any, _R]]:
    """Return a method that calls one of the same name of what is beneath, in a thread. Cancelled, it ends there first.

    Args:
        method: That method, of the base class.
        work: Which threads it takes.
    """

    @functools.wraps(method, updated=())  # that it is abstract is not taken over
    async def call(self: Wrapper, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        function = functools.partial(_beneath(self, method), *args, **with_callbacks(kwargs))
        return await in_thread(function, limiter=limiter_for(work))

    return call


async def asked(question: Callable[[], _R]) -> _R:
    """Return what something beneath says, which may have to start the target for it."""
    return await in_thread(question, limiter=limiter_for(Work.COMMAND))


def ended(method: Callable[Concatenate[Any, _P], _R]) -> Callable[Concatenate[Wrapper, _P], Coroutine[Any, Any, _R]]:
    """Return the same for a method that ends something: it goes to its end, also in a task that is cancelled."""

    @functools.wraps(method, updated=())  # that it is abstract is not taken over
    async def call(self: Wrapper, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        function = functools.partial(_beneath(self, method), *args, **kwargs)
        return await to_its_end(function, limiter=limiter_for(Work.CONTROL))

    return call


def in_turn(method: Callable[Concatenate[Any, _P], _R]) -> Callable[Concatenate[Wrapper, _P], Coroutine[Any, Any, _R]]:
    """Return the same for a method that waits for its turn in a session, and would wait for itself in a callback."""
    run = awaited(method)

    @functools.wraps(method, updated=())  # that it is abstract is not taken over
    async def call(self: Wrapper, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with taking_turn(self.sync):
            return await run(self, *args, **kwargs)

    return call


def _beneath(wrapper: Wrapper, method: Callable[..., _R]) -> Callable[..., _R]:
    found: Callable[..., _R] = getattr(wrapper.sync, method.__name__)
    return found


def with_callbacks(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of which those that are callbacks may be coroutine functions."""
    callbacks = {name: awaited_at_home(arguments[name]) for name in CALLBACKS if callable(arguments.get(name))}
    return {**arguments, **callbacks}


class _Turn:
    """A command that has its turn in a session, or waits for it."""

    def __init__(self, session: object, outer: _Turn | None) -> None:
        self._session = session
        self._outer = outer
        self.is_over = False

    def holds(self, session: object) -> bool:
        """Whether it, or what waits for it, is in a session."""
        here = self._session is session and not self.is_over
        return here or bool(self._outer and self._outer.holds(session))


_turn: ContextVar[_Turn | None] = ContextVar("hermes_turn", default=None)


def check_turn(session: object) -> None:
    """Raise TerminalError in a callback of a command that runs in a session already, and so would wait for itself."""
    turn = _turn.get()
    if turn and turn.holds(session):
        raise TerminalError(
            "execute was awaited by a callback of a command of the same session, which waits for that; await "
            "execute_oneshot, which runs beside it"
        )


@contextlib.contextmanager
def taking_turn(session: object) -> Iterator[None]:
    """Let the block run a command in a session. Raises as `check_turn` does."""
    check_turn(session)
    turn = _Turn(session, _turn.get())
    try:
        with holding(_turn, turn):
            yield
    finally:
        turn.is_over = True

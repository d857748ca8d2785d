"""What the rest of the server knows of a call that runs."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol

from mcp.types import ElicitResult

from environments.cancellation import holding
from hermes_env.mcp.news import News


class RunningCall(Protocol):
    """A call of a tool while it runs."""

    tool: str
    """The tool's name."""
    news: News
    """Told to the client."""

    @property
    def can_ask(self) -> bool:
        """Whether the client can show its user a form."""

    def ask(self, text: str) -> Future[ElicitResult]:
        """Have the client show its user a text with a form, from any thread. It is taken back when the call ends.

        Raises:
            RuntimeError: The call has ended.
        """


_current: ContextVar[RunningCall | None] = ContextVar("hermes_mcp_call", default=None)


def current_call() -> RunningCall | None:
    """Return the call that the current thread works for, as far as it is known."""
    return _current.get()


def working_for(call: RunningCall) -> AbstractContextManager[None]:
    """Have the current thread work for a call in the block."""
    return holding(_current, call)

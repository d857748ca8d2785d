"""One client of the server: its environment, and what lasts as long as it is there."""

from __future__ import annotations

import threading
from typing import Any, get_args

import anyio
from mcp.server.context import ServerRequestContext
from mcp.types import LoggingLevel

from environments import BaseEnvironment
from environments.approvals import Deny, Request
from environments.errors import TerminalError
from environments.loop import in_worker
from environments.starting import Progress
from hermes_env.aio.calls import to_its_end
from hermes_env.mcp.consents import Consents
from hermes_env.mcp.offer import Offer
from hermes_env.mcp.running import RunningCall, current_call
from hermes_env.schemas.toolset import EXECUTE_CODE

MAX_CALLS = 16
"""How many calls of one client run side by side. Further ones wait."""
_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
_KEY = "hermes-env client"


class ServedClient:
    """What one client has. Its environment is made with its first call, and goes with it.

    Args:
        offer: What it gets.
    """

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.level: LoggingLevel = "info"
        """The least important of the messages that it wants."""
        self.limiter = anyio.CapacityLimiter(MAX_CALLS)
        """Bounds its calls."""
        self.calls: tuple[RunningCall, ...] = ()
        """Those that run. It is replaced, and never changed, so that any thread may go through it."""
        self._consents = Consents()
        self._lock = threading.Lock()
        self._environment: BaseEnvironment | None = None
        self._closed = False

    @classmethod
    def of(cls, context: ServerRequestContext[Any, Any], offer: Offer) -> ServedClient:
        """Return the client that a request comes from.

        Args:
            context: The request.
            offer: What a new client gets.
        """
        # The SDK gives those that handle requests no other way to what lasts as long as the connection.
        connection = context.session._connection
        client = connection.state.get(_KEY)
        if client is None:
            client = connection.state[_KEY] = cls(offer)
            connection.exit_stack.push_async_callback(client.close)
        assert isinstance(client, ServedClient)
        return client

    def wants(self, level: LoggingLevel) -> bool:
        """Whether it wants log messages of a level."""
        return _LEVELS.index(level) >= _LEVELS.index(self.level)

    def environment(self) -> BaseEnvironment:
        """Return its environment, from any thread.

        Raises:
            TerminalError: It cannot be made, or the client has gone.
        """
        with self._lock:
            if self._closed:
                raise TerminalError("the session has ended; begin a new one")
            if self._environment is None:
                self._environment = self.offer.environment(self._approve, self._tell)
            return self._environment

    async def close(self) -> None:
        """Clean up its environment, however long that takes and whatever is cancelled."""
        await to_its_end(lambda _: in_worker(self._clean_up))

    def _clean_up(self) -> None:
        with self._lock:
            self._closed = True
            environment, self._environment = self._environment, None
        if environment:
            environment.cleanup()

    def _tell(self, progress: Progress) -> None:
        self.offer.on_progress(progress)
        for call in self.calls:  # all of them may wait for the same start
            call.news.step(progress)

    def _approve(self, request: Request, question: str) -> bool | Deny:
        if self._consents.cover(request):
            return True
        call = current_call() or self._call_of_script()
        if call is None or not call.can_ask:
            return Deny(f"it needs approval ({question}), and the client has no way to ask for it")
        return self._consents.ask(request, question, call.ask)

    def _call_of_script(self) -> RunningCall | None:
        """Return the call that a thread works for which answers a script's tool calls, as far as can be told."""
        scripts = [call for call in self.calls if call.tool == EXECUTE_CODE]
        return next(iter(scripts or self.calls), None)

"""Ending the server in order: the signals that end a program are taken for a request to do so."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@asynccontextmanager
async def ending_signals() -> AsyncIterator[anyio.Event]:
    """Yield an event that Ctrl-C, SIGTERM and SIGHUP set; they do nothing else in the block, however often sent."""
    # nohup has a program ignore SIGHUP; that stays.
    numbers = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    ended = anyio.Event()
    with anyio.open_signal_receiver(*numbers) as received:

        async def watch() -> None:
            async for _ in received:
                ended.set()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            yield ended
            group.cancel_scope.cancel()

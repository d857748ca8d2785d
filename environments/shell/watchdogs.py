"""Watchdogs: internal shells that end all processes in a target when this program dies, even by a signal."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from environments.errors import TerminalError
from environments.log import logger
from environments.loop import current, spawn
from environments.shell.dialect.commands import arming_watchdog, disarming_watchdog, stopping_watchdogs

if TYPE_CHECKING:
    from environments.shell.pool import Shells
    from environments.shell.shell import Shell

LINK_GRACE = 1.8
"""Seconds after a dropped link during which a running program can stop its watchdogs. If the program is dead, all its
processes are ended within 3 s."""
LINK_PAUSE, LINK_LIMIT = 0.2, 10.0
"""Seconds between two attempts to stop a watchdog, and for all attempts. Later, the next link stops it."""
DISMISSAL_LIMIT = 1.0
"""Seconds to send a watchdog its last text."""

log = logger(__name__)


class Watchdogs:
    """The watchdogs of one target.

    Args:
        shells: The shells of the target.
    """

    def __init__(self, shells: Shells) -> None:
        self._shells = shells
        self._armed: set[Shell] = set()
        self._cut_off: set[int] = set()
        """Watchdogs with a dropped link, not yet stopped."""
        self._stopping: asyncio.Task[None] | None = None

    def arm(self, shell: Shell) -> None:
        """Have a shell end all processes of the environment at the end of its input."""
        markers, link_may_drop = self._shells.markers(), self._shells.env.link_may_drop
        stopped, self._cut_off = self._cut_off, set()
        down = stopping_watchdogs(markers, stopped) if stopped else ""
        patience = LINK_GRACE if link_may_drop else 0.0
        shell.send_internal(down + arming_watchdog(shell.dialect.call, markers, patience))
        self._armed.add(shell)
        if link_may_drop:
            shell.stream.ended.add_done_callback(lambda _: self._link_ended(shell))

    def _link_ended(self, shell: Shell) -> None:
        if shell in self._armed:
            self._armed.discard(shell)
            self._cut_off.add(shell.pid)
            if self._stopping is None or self._stopping.done():
                self._stopping = spawn(self._stop_cut_off())

    async def _stop_cut_off(self) -> None:
        """Stop cut-off watchdogs over a new link, before they end any process."""
        deadline = current().loop.time() + LINK_LIMIT
        while self._cut_off and self._shells.life.is_open and current().loop.time() < deadline:
            stopped = frozenset(self._cut_off)
            try:
                await self._shells.rescue.run(stopping_watchdogs(self._shells.markers(), stopped))
            except TerminalError as error:
                log.debug("watchdogs with a dropped link could not be stopped: %s", error)
                await asyncio.sleep(LINK_PAUSE)
            else:
                self._cut_off -= stopped

    async def dismiss(self, shell: Shell) -> None:
        """Let a watchdog end without ending other processes."""
        if shell in self._armed:
            self._armed.discard(shell)
            shell.send_internal(disarming_watchdog(shell.dialect.call))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DISMISSAL_LIMIT):
                    await shell.stream.drain()

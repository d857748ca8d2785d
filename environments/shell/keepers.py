"""Shells of ours that end what runs in a target with this program, which may be ended by a signal."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from environments.errors import TerminalError
from environments.log import logger
from environments.loop import current, spawn
from environments.shell.dialect.commands import ending_with_program, not_ending_with_program, standing_down

if TYPE_CHECKING:
    from environments.shell.pool import Shells
    from environments.shell.shell import Shell

LINK_GRACE = 1.8
"""Seconds behind the end of a link in which a program that is still there says so. One that is not has ended what runs
there within 3 s."""
LINK_PAUSE, LINK_LIMIT = 0.2, 10.0
"""Seconds between two attempts to say so, and for all of them. Behind that it is said with the next link."""
DISMISSAL_LIMIT = 1.0
"""Seconds for a shell to be sent what it is to know before it ends."""

log = logger(__name__)


class Keepers:
    """Those of one target.

    Args:
        shells: The shells of the target.
    """

    def __init__(self, shells: Shells) -> None:
        self._shells = shells
        self._keepers: set[Shell] = set()
        self._cut_off: set[int] = set()
        """Those whose link has dropped, and that have not been told that this program is still there."""
        self._telling: asyncio.Task[None] | None = None

    def begin(self, shell: Shell) -> None:
        """Have a shell end all processes of the environment when its input comes to an end."""
        markers, link_may_drop = self._shells.markers(), self._shells.env.link_may_drop
        told, self._cut_off = self._cut_off, set()
        down = standing_down(markers, told) if told else ""
        patience = LINK_GRACE if link_may_drop else 0.0
        shell.tell(down + ending_with_program(shell.dialect.call, markers, patience))
        self._keepers.add(shell)
        if link_may_drop:
            shell.stream.ended.add_done_callback(lambda _: self._left(shell))

    def _left(self, shell: Shell) -> None:
        if shell in self._keepers:
            self._keepers.discard(shell)
            self._cut_off.add(shell.pid)
            if self._telling is None or self._telling.done():
                self._telling = spawn(self._stand_down())

    async def _stand_down(self) -> None:
        """Have shells end that were cut off, over a new link, so that they end nothing else."""
        deadline = current().loop.time() + LINK_LIMIT
        while self._cut_off and self._shells.life.is_open and current().loop.time() < deadline:
            told = frozenset(self._cut_off)
            try:
                await self._shells.rescue.run(standing_down(self._shells.markers(), told))
            except TerminalError as error:
                log.debug("shells whose link has dropped could not be told so: %s", error)
                await asyncio.sleep(LINK_PAUSE)
            else:
                self._cut_off -= told

    async def dismiss(self, shell: Shell) -> None:
        """Let a shell end without ending anything else."""
        if shell in self._keepers:
            self._keepers.discard(shell)
            shell.tell(not_ending_with_program(shell.dialect.call))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DISMISSAL_LIMIT):
                    await shell.stream.drain()

"""Shells of ours that a command has stopped: they go on, or what goes on stopping them is ended."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from environments.errors import EnvironmentStartError, TerminalError
from environments.log import logger
from environments.loop import current, done_within, spawn
from environments.output import Channel
from environments.shell.lifecycle import Stage, answered
from environments.shell.stream import Discard, Stream

if TYPE_CHECKING:
    from environments.shell.pool import Shells
    from environments.shell.shell import Shell

SILENCE = 1.0
"""Seconds in which a shell reads what it is sent. One that has not may be stopped."""
LIMIT = 8.0
"""Seconds for a rescue."""
ANSWER_LIMIT = 2.0
"""Seconds for a shell that is to be stopped by nothing to run a text of builtins."""
AGAIN = 0.3
"""Seconds behind which shells that were let go on are stopped again, if that does not end by itself."""
KILL_ALL = "kill -s KILL -- -1"
"""Ends all processes in sight, but for the first one and the shell that runs it."""

log = logger(__name__)


def continuing(shells: Iterable[int]) -> str:
    """Return what lets those of some shells, and of their parents, go on that are stopped, and prints which.

    A parent of a shell may be what its stream leads over, such as a process of the SSH server's. It starts no process.
    """
    return f"""\
see_to() {{
  l=
  read -r l <"/proc/$1/stat" || return
  case ${{l##*) }} in [Tt]*) kill -s CONT "$1" && echo "$1" ;; esac
  l=${{l##*) ? }}
  parent=${{l%% *}}
}}
for p in {" ".join(map(str, shells))}; do
  parent=
  see_to "$p"
  if [ "${{parent:-0}}" -gt 1 ]; then see_to "$parent"; fi
done 2>/dev/null
"""


async def printed(stream: Stream) -> str:
    """Return what a process prints until it ends, for at most `ANSWER_LIMIT` seconds.

    Raises:
        EnvironmentStartError: It has not ended by then.
    """
    output = _Printed()
    stream.start(output)
    try:
        if not await done_within(stream.ended, ANSWER_LIMIT):
            raise EnvironmentStartError("a new process there does not answer")
        return output.text.decode("utf-8", "replace")
    finally:
        spawn(stream.close())


class _Printed(Discard):
    def __init__(self) -> None:
        self.text = b""

    def data_received(self, channel: Channel, data: bytes) -> None:
        """Keep it, see `Receiver`."""
        if channel is Channel.STDOUT:
            self.text += data[:65536]


class Rescue:
    """Sees to shells that do not read what they are sent.

    Args:
        shells: The shells of the target.
    """

    def __init__(self, shells: Shells) -> None:
        self._shells = weakref.proxy(shells)
        self._task: asyncio.Task[None] | None = None

    def watch(self, shell: Shell, *, asked: bool = False) -> asyncio.TimerHandle:
        """See to a shell that was sent something just now, unless what is returned is cancelled first.

        Args:
            shell: The shell.
            asked: True if it was sent text of builtins, of which nothing is known until it is answered.
        """
        return current().loop.call_later(SILENCE, self._look_at, shell, asked)

    def _look_at(self, shell: Shell, asked: bool) -> None:
        if asked or not shell.read_request():
            self.begin()

    def begin(self) -> None:
        """Begin a rescue, unless one is under way."""
        if self._task is None or self._task.done():
            self._task = spawn(self._rescue())

    async def before_opening(self) -> None:
        """See to it that a process that is started is not stopped on its way, where that can be told from outside."""
        shells = self._shells
        if shells.env.has_rescuer and shells.life.stage in (Stage.STARTED, Stage.CLOSING):
            self.begin()
        await self.ended()

    async def ended(self) -> None:
        """Wait for the end of a rescue that is under way."""
        if self._task:
            await asyncio.wait((self._task,))

    async def _rescue(self) -> None:
        try:
            async with asyncio.timeout(LIMIT):
                if await self._let_go_on() and self._shells.env.is_alone:
                    await asyncio.sleep(AGAIN)
                    # In the end it is the environment that stops them, and others may be in a target that is kept.
                    if await self._let_go_on() and self._shells.life.stage is Stage.STARTED:
                        log.warning("a command stops all processes again and again; all are ended")
                        await self.run(KILL_ALL)
        except (TerminalError, TimeoutError) as error:
            log.debug("shells that may be stopped could not be seen to: %s", error)

    async def _let_go_on(self) -> bool:
        """Let shells go on that are stopped, and return whether there was any."""
        return bool((await self.run(continuing(self._shells.pids()))).strip())

    async def run(self, text: str) -> str:
        """Run shell text where nothing in the target stands in the way, see `PersistentShellEnvironment`."""
        said: str = await answered(self._shells.env.run_in_rescue, text)
        return said

"""Rescue of stopped shells: continues shells stopped by a command, or ends a command that stops them repeatedly."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from environments.errors import EnvironmentStartError, TerminalError
from environments.log import logger
from environments.loop import current, done_within, spawn
from environments.output import Channel
from environments.shell.lifecycle import Stage, call_backend
from environments.shell.stream import Discard, Stream

if TYPE_CHECKING:
    from environments.shell.pool import Shells
    from environments.shell.shell import Shell

SILENCE = 1.0
"""Seconds for a shell to read a request. After this time it may be stopped."""
LIMIT = 8.0
"""Seconds for a rescue."""
ANSWER_LIMIT = 2.0
"""Seconds for a shell out of reach of stop signals to run a text of builtins."""
AGAIN = 0.3
"""Seconds until continued shells are checked for another stop."""
KILL_ALL = "kill -s KILL -- -1"
"""Ends all visible processes except the first process and the running shell."""

log = logger(__name__)


def continuing(shells: Iterable[int]) -> str:
    """Return text to continue those shells and parents that are stopped, and print their ids, without a new process.

    A shell's parent may carry its stream, such as a process of the SSH server.
    """
    return f"""\
resume() {{
  l=
  read -r l <"/proc/$1/stat" || return
  case ${{l##*) }} in [Tt]*) kill -s CONT "$1" && echo "$1" ;; esac
  l=${{l##*) ? }}
  parent=${{l%% *}}
}}
for p in {" ".join(map(str, shells))}; do
  parent=
  resume "$p"
  if [ "${{parent:-0}}" -gt 1 ]; then resume "$parent"; fi
done 2>/dev/null
"""


async def printed(stream: Stream) -> str:
    """Return a process's output until its end, for at most `ANSWER_LIMIT` seconds.

    Raises:
        EnvironmentStartError: The process has not ended by then.
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
        if channel is Channel.STDOUT:
            self.text += data[:65536]


class Rescue:
    """Continues shells that do not read their requests.

    Args:
        shells: The shells of the target.
    """

    def __init__(self, shells: Shells) -> None:
        self._shells = weakref.proxy(shells)
        self._task: asyncio.Task[None] | None = None

    def watch(self, shell: Shell, *, is_query: bool = False) -> asyncio.TimerHandle:
        """Start a timer for a shell with a new request. A rescue begins unless the timer is cancelled.

        Args:
            shell: The shell.
            is_query: True for text of builtins: its progress is unknown until the answer.
        """
        return current().loop.call_later(SILENCE, self._look_at, shell, is_query)

    def _look_at(self, shell: Shell, is_query: bool) -> None:
        if is_query or not shell.has_read_request():
            self.begin()

    def begin(self) -> None:
        """Begin a rescue, unless in progress."""
        if self._task is None or self._task.done():
            self._task = spawn(self._rescue())

    async def before_opening(self) -> None:
        """Begin a rescue before a process starts, if possible from outside: a stop half way would block the start."""
        shells = self._shells
        if shells.env.has_rescuer and shells.life.stage in (Stage.STARTED, Stage.CLOSING):
            self.begin()
        await self.ended()

    async def ended(self) -> None:
        """Wait for the end of a rescue in progress."""
        if self._task:
            await asyncio.wait((self._task,))

    async def _rescue(self) -> None:
        try:
            async with asyncio.timeout(LIMIT):
                if await self._resume_stopped() and self._shells.env.owns_all_processes:
                    await asyncio.sleep(AGAIN)
                    # In the end the environment itself stops them, and a kept target may have other users.
                    if await self._resume_stopped() and self._shells.life.stage is Stage.STARTED:
                        log.warning("a command stops all processes again and again; all are ended")
                        await self.run(KILL_ALL)
        except (TerminalError, TimeoutError) as error:
            log.debug("stopped shells could not be continued: %s", error)

    async def _resume_stopped(self) -> bool:
        """Continue stopped shells. Returns True if any was stopped."""
        return bool((await self.run(continuing(self._shells.pids()))).strip())

    async def run(self, text: str) -> str:
        """Run shell text out of reach of the target's processes, see `PersistentShellEnvironment`."""
        said: str = await call_backend(self._shells.env.run_in_rescue, text)
        return said

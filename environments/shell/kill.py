"""Ending every process of a command, in the target, wherever it has moved to.

What belongs to a command is found in several ways, as each alone can be escaped: it carries the command's marker in
its environment or, if it is a script's, its number; it holds the command's leash (see `dialect`); it was started since
and has the command's output as its own, or is a child of the command's shell without any mark; it descends from one
that does, or did so at an earlier look. What an earlier command left in the background carries another marker and
another leash, and is not touched. Only in a container that is full, where nothing could be done any more, or where
processes become more and more behind a command's end, is also taken for the command's what was started since and
carries no mark of ours at all; and in one of our own that begins anew, what is none of ours.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from environments.shell.dialect.base import Dialect
from environments.shell.dialect.commands import TELL_TIME, TELL_TIME_ALONE, look, signalling, without_leash
from environments.shell.fork_bomb import MANY, Census
from environments.shell.lifecycle import answered
from environments.shell.process_table import TICKS, ProcessTable, is_number, parse_time

if TYPE_CHECKING:
    from environments.shell.fork_bomb import Crowd

KILL_LIMIT = 2.0
"""Seconds in which KILL must have ended everything. A process in an uninterruptible wait outlives it."""
CROWD_LIMIT = 3.0
"""Seconds in which a crowd must have been ended, before it is tried like anything else."""
FIRST = 1
"""The first process of a target, with which all others would end."""
GROWTH, GROWTH_LOOKS = 5, 5
"""How many processes without a mark more, within so many looks behind the end of a command, are a bomb that goes on."""
LEAST_LOOKS = 3
"""How often KILL is sent at least, however long that takes."""
EMPTY_LOOKS = 3
"""How many looks in a row must find nothing, if what they found was another each time."""
BATCH = 1000
"""Processes to signal with one command."""
LOOK_TIMEOUT, LOOK_SHARE = 10.0, 0.01
"""Seconds for one look, and those on top of that for each process that is known."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.1


class RunInTarget(Protocol):
    """Runs a command of our own in the target."""

    def __call__(self, text: str, timeout: float = ...) -> Awaitable[str]:
        """Run shell text, wait for it `timeout` seconds, and return what it prints.

        Raises:
            TerminalError: The target does not answer.
        """


class Quarry(NamedTuple):
    """Whose processes are to be ended."""

    marker: str
    """The value of the marker variable, or a part of it; any of several, if these stand in lines."""
    dialect: type[Dialect]
    """The kind of shell that runs the command, which says where its leash is."""
    shell_pid: int | None = None
    """The shell that runs the command and holds the other end of its leash."""
    wakes_shell: bool = False
    """Whether that shell must leave the command by itself: it is then told to, before anything is signalled, as it
    would otherwise go on with what stands behind the command that was ended."""
    ends_shell: bool = False
    """Whether that shell is one of the processes to be ended."""
    began: float = math.inf
    """When the command began, on the monotonic clock."""
    since: float | None = None
    """When it began on the target's own clock, in ticks, if it was asked for then."""
    brand: str | None = None
    """The number of its processes, or a pattern for numbers, see `dialect.commands.branding`."""
    takes_strays: bool = False
    """Whether all that was started since is meant, also what carries no mark of ours, if nobody else's can be seen."""


class ProcessTree:
    """Finds and signals the processes of one command through another shell of the same target.

    Args:
        run: Runs text in such a shell.
        quarry: Whose processes they are.
        crowd: How to see and signal them where none can be started; None if there is no way.
        hunt: Ends those that no look finds, see `PersistentShellEnvironment.hunt`.
    """

    def __init__(
        self,
        run: RunInTarget,
        quarry: Quarry,
        crowd: Crowd | None = None,
        hunt: Callable[[str, str | None], object] | None = None,
    ) -> None:
        self._run, self._hunt = run, hunt
        self._quarry = quarry
        self._crowd = crowd
        self._leash_ends = (quarry.dialect.leash, quarry.dialect.leash_end)
        self._outputs = (quarry.dialect.out, quarry.dialect.err)
        self._shell_runs_it = quarry.shell_pid is not None
        self._began = quarry.since
        self._known: dict[int, int] = {}
        self._looked = self._restless = False
        self._alone = self._takes_strays = False
        self._groups = {quarry.shell_pid} if quarry.shell_pid else set()

    async def end(self, grace: float, running: bool = True) -> tuple[int, ...]:
        """Send TERM, wait, send KILL, and wait again. A crowd, which would have no room to do anything, gets KILL.

        Args:
            grace: Seconds between TERM and KILL.
            running: Whether the shell still runs the command. Otherwise it has the leash of another by now, if any.

        Returns:
            The process ids of what could not be ended, mostly none.

        Raises:
            TerminalError: The target does not answer.
        """
        self._shell_runs_it = self._shell_runs_it and running
        wake = self._quarry.wakes_shell
        census = await self._take_census()
        if not census.is_full:
            if await self._pass("TERM", wake) or wake:  # a trap on TERM may start something
                await self._wait(grace)
            wake = False
            census = await self._take_census()
        if self._crowd and census.is_crowd:
            await self._end_crowd(self._crowd, wake)
        left = await self._kill()
        if self._crowd and (running or self._known) and await self._goes_on(self._crowd):
            await self._end_crowd(self._crowd, wake=False)
            left = await self._kill()
        if self._hunt:
            await answered(self._hunt, self._quarry.marker, self._quarry.brand)
        return tuple(sorted(left))

    async def _goes_on(self, crowd: Crowd) -> bool:
        """Return whether processes still become more: those of a bomb that had only begun, with no mark of ours."""
        if not (self._alone and crowd.is_ours):
            return False
        self._takes_strays = True
        first = looks = 0
        while (strays := len(await self._pass(""))) and looks <= GROWTH_LOOKS:
            first = first or strays
            if strays >= first + GROWTH or strays >= MANY:
                return True
            looks += 1
            await asyncio.sleep(_LONGEST_PAUSE)
        self._takes_strays, self._known = False, {}
        return False

    async def look(self) -> set[int]:
        """Return the process ids of what there is, and signal nothing. Raises as `end` does."""
        await self._take_census()
        return await self._pass("")

    async def _take_census(self) -> Census:
        """Count the processes, and see to it that none is started from here on where they may run out."""
        census = await self._crowd.census() if self._crowd else Census(0, None)
        is_ours = bool(self._crowd and self._crowd.is_ours)
        takes_all = is_ours and self._quarry.takes_strays
        self._alone = census.is_close or census.is_full or takes_all
        self._takes_strays = takes_all or (is_ours and census.is_full)
        return census

    async def kill_shell(self) -> None:
        """Send KILL to the shell itself, which did not leave its command."""
        if self._quarry.shell_pid:
            await self._signal("KILL", [self._quarry.shell_pid])

    async def _end_crowd(self, crowd: Crowd, wake: bool) -> None:
        """Stop the crowd, send KILL to what is found of it until nothing is, and let all others go on."""
        deadline = time.monotonic() + CROWD_LIMIT
        async with crowd.stopping():
            try:
                while await self._pass("KILL", wake, crowd.to_stop(self._groups), thaw=False):
                    if time.monotonic() > deadline:
                        break
                    wake = False
                    await asyncio.sleep(_FIRST_PAUSE)
            finally:
                await crowd.let_go(self._groups)

    async def _wait(self, limit: float) -> None:
        deadline = time.monotonic() + limit
        pause, left = _FIRST_PAUSE, {0}
        while left and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            if self._alone and (await self._take_census()).is_full:
                return
            left = await self._pass("")

    async def _kill(self) -> set[int]:
        """Send KILL until nothing is found any more, and return what could not be ended.

        What forks and exits without end may not be found at a look although it is there, so that each look is at
        processes that are stopped.
        """
        deadline = time.monotonic() + KILL_LIMIT
        pause, looks, empty = _FIRST_PAUSE, 0, 0
        while empty < (EMPTY_LOOKS if self._restless else 1):
            left = await self._pass("KILL", freeze=[group for group in self._groups if group > 1])
            looks += 1
            empty = 0 if left else empty + 1
            if left:
                if looks > LEAST_LOOKS and time.monotonic() > deadline:
                    return left
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        return set()

    async def _pass(self, signal: str, wake: bool = False, freeze: Sequence[int] = (), thaw: bool = True) -> set[int]:
        """Look once, send `signal` (or nothing) to what is found, and return it.

        Args:
            signal: What to send.
            wake: Whether to have the shell leave the command.
            freeze: Groups of processes to stop for as long as the look takes.
            thaw: Whether to let them go on then.
        """
        quarry = self._quarry
        shell = quarry.shell_pid
        running = shell if self._shell_runs_it else None
        text = look(
            quarry.marker,
            self._leash_ends,
            self._outputs,
            [*([running] if running else []), *list(self._known)[:BATCH]],
            bool(self._known or running or self._takes_strays),
            mouth=running if signal else None,  # it takes its time, and who was found once is known
            spare=None if quarry.ends_shell else shell,
            wake=shell if wake else None,
            signal=signal,
            brand=quarry.brand,
            freeze=freeze,
            thaw=thaw,
            alone=self._alone,
            most=self._crowd.most_running if self._crowd else None,
        )
        patience = LOOK_TIMEOUT + LOOK_SHARE * len(self._known)
        # What looked may have been killed before it did.
        seen = await self._ask(text, patience) or await self._ask(text, patience)
        table = ProcessTable.parse(seen)
        found = table.family(await self._roots(table)) - table.own
        if shell and not quarry.ends_shell:
            found.discard(shell)
        moving = table.moving
        self._restless = self._restless or bool(self._looked and (found | moving) - self._known.keys())
        self._looked = True
        self._known = {pid: table.rows[pid].started for pid in found}
        self._groups |= table.groups(found | ({running} if running else set())) - table.groups(table.own)
        if signal and (others := sorted(found - table.signalled)):
            await self._signal(signal, others)
        return found | moving

    async def _roots(self, table: ProcessTable) -> set[int]:
        """Return those that are the command's whatever they descend from."""
        likely = table.speaking | (table.strays - {FIRST} if self._takes_strays else frozenset())
        children = table.children(self._quarry.shell_pid) if self._shell_runs_it and self._quarry.shell_pid else set()
        known = table.still(self._known) | table.marked
        likely = (likely | children) - known - table.own - table.ancestors(self._quarry.shell_pid or 0)
        if not likely:
            return known
        likely &= table.started_since(await self._since())
        if doubtful := likely & children - table.speaking:
            likely -= doubtful - await self._without_mark(doubtful)
        return known | likely

    async def _without_mark(self, children: Collection[int]) -> set[int]:
        """Return which children of the command's shell show no sign of another command."""
        shells = self._quarry.marker.rstrip("/").rpartition("/")[0] + "/"
        text = await self._ask(without_leash(sorted(children), shells, self._leash_ends[0]), LOOK_TIMEOUT)
        return {int(word) for word in text.split() if is_number(word)}.intersection(children)

    async def _since(self) -> float:
        """Return when the command began, in ticks of the clock by which the target tells starts of processes."""
        if self._began is None:
            self._began = math.inf
            if self._quarry.began < math.inf:
                # A look takes long on a loaded machine, so that its own time says little about when the command began.
                now = parse_time(await self._ask(TELL_TIME_ALONE if self._alone else TELL_TIME, LOOK_TIMEOUT))
                runs_for = time.monotonic() - self._quarry.began
                if now is not None:
                    self._began = math.floor(now - runs_for * TICKS)  # a start is told as a whole tick
        return self._began

    async def _signal(self, signal: str, targets: Sequence[int]) -> None:
        for begin in range(0, len(targets), BATCH):
            await self._ask(signalling(signal, targets[begin : begin + BATCH]), LOOK_TIMEOUT)

    async def _ask(self, text: str, timeout: float) -> str:
        if self._alone and self._crowd:
            return await self._crowd.run(text)
        return await self._run(text, timeout)

"""End the process tree of a command in the target, wherever its processes have moved.

A process of a command is found in several ways, as each alone can be escaped:

- the command's marker in its environment or, for a script, its brand (a limit of file locks);
- an open keepalive pipe of the command (see `dialect`);
- a start since the command began, together with the command's output as its own output;
- an unmarked child of the command's shell, started since;
- descent from any such process, now or at an earlier look.

Background processes of earlier commands have another marker and another keepalive pipe, and stay untouched. Unmarked
processes started since the command also count as the command's in two cases: in a container owned by the environment
that is full, or with process counts that grow after the command's end; and at the reset of an environment that owns its
container.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from environments.shell.dialect.base import Dialect
from environments.shell.dialect.commands import TELL_TIME, TELL_TIME_BY_BUILTINS, look, signalling, without_keepalive
from environments.shell.fork_bomb import MANY, ProcessCount
from environments.shell.lifecycle import call_backend
from environments.shell.process_table import TICKS, ProcessTable, is_number, parse_time

if TYPE_CHECKING:
    from environments.shell.fork_bomb import ForkBombHandler

KILL_LIMIT = 2.0
"""Seconds for KILL to end everything. A process in an uninterruptible wait survives."""
FORK_BOMB_LIMIT = 3.0
"""Seconds to end stopped processes together, before the usual way."""
FIRST = 1
"""Process 1 of a target: its end would end all others."""
GROWTH, GROWTH_LOOKS = 5, 5
"""Growth of unmarked processes, within so many looks after a command's end, that shows a running fork bomb."""
LEAST_LOOKS = 3
"""Least count of KILLs, however long they take."""
EMPTY_LOOKS = 3
"""Looks in a row without a process, required if each look before found other processes."""
BATCH = 1000
"""Processes per signal command."""
LOOK_TIMEOUT, LOOK_SHARE = 10.0, 0.01
"""Seconds for one look, and extra seconds for each known process."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.1


class RunInTarget(Protocol):
    """Runs internal commands in the target."""

    def __call__(self, text: str, timeout: float = ...) -> Awaitable[str]:
        """Run shell text with a time-out of `timeout` seconds, and return its output.

        Raises:
            TerminalError: The target does not answer.
        """


class ProcessSelector(NamedTuple):
    """Selects the processes to end."""

    marker: str
    """The value of the marker variable, or a part; several are separated by newlines, and any matches."""
    dialect: type[Dialect]
    """The dialect of the command's shell. It defines the file descriptors of the keepalive pipe."""
    shell_pid: int | None = None
    """The shell that runs the command and holds the other end of its keepalive pipe."""
    wakes_shell: bool = False
    """True if the shell must leave the command by itself. It is sent the leave signal before any process is signalled,
    as it would otherwise run the rest of the ended command."""
    ends_shell: bool = False
    """True if the shell itself is to be ended."""
    began: float = math.inf
    """The command's start on the monotonic clock."""
    since: float | None = None
    """The command's start on the target's clock, in ticks, if known."""
    brand: str | None = None
    """The brand of its processes, or a pattern of brands, see `dialect.commands.branding`."""
    includes_unmarked: bool = False
    """Also match unmarked processes younger than the command; safe only if nothing else runs in the target."""


class ProcessTree:
    """Finds and signals the process tree of one command through another shell of the same target.

    Args:
        run: Runs text in this shell.
        selector: Selects the processes.
        handler: Finds and signals processes by builtins alone; None without a reserve shell.
        hunt: Ends processes that escape every look, see `PersistentShellEnvironment.hunt`.
    """

    def __init__(
        self,
        run: RunInTarget,
        selector: ProcessSelector,
        handler: ForkBombHandler | None = None,
        hunt: Callable[[str, str | None], object] | None = None,
    ) -> None:
        self._run, self._hunt = run, hunt
        self._selector = selector
        self._handler = handler
        self._keepalive_ends = (selector.dialect.keepalive, selector.dialect.keepalive_end)
        self._outputs = (selector.dialect.out, selector.dialect.err)
        self._shell_runs_it = selector.shell_pid is not None
        self._began = selector.since
        self._known: dict[int, int] = {}
        self._looked = self._restless = False
        self._builtins_only = self._includes_unmarked = False
        self._groups = {selector.shell_pid} if selector.shell_pid else set()

    async def end(self, grace: float, running: bool = True) -> tuple[int, ...]:
        """Send TERM, wait, send KILL, and wait again. A fork bomb without room to act gets KILL at once.

        Args:
            grace: Seconds between TERM and KILL.
            running: True while the shell runs the command. Later it has another command's keepalive pipe, if any.

        Returns:
            The process ids of survivors, usually none.

        Raises:
            TerminalError: The target does not answer.
        """
        self._shell_runs_it = self._shell_runs_it and running
        wake = self._selector.wakes_shell
        count = await self._count()
        if not count.is_full:
            if await self._pass("TERM", wake) or wake:  # a trap on TERM may start a process
                await self._wait(grace)
            wake = False
            count = await self._count()
        if self._handler and count.must_be_stopped:
            await self._end_fork_bomb(self._handler, wake)
        left = await self._kill()
        if self._handler and (running or self._known) and await self._goes_on(self._handler):
            await self._end_fork_bomb(self._handler, wake=False)
            left = await self._kill()
        if self._hunt:
            await call_backend(self._hunt, self._selector.marker, self._selector.brand)
        return tuple(sorted(left))

    async def _goes_on(self, handler: ForkBombHandler) -> bool:
        """Return True if unmarked processes still multiply: a fork bomb that had only begun."""
        if not (self._builtins_only and handler.owns_all_processes):
            return False
        self._includes_unmarked = True
        first = looks = 0
        while (unmarked := len(await self._pass(""))) and looks <= GROWTH_LOOKS:
            first = first or unmarked
            if unmarked >= first + GROWTH or unmarked >= MANY:
                return True
            looks += 1
            await asyncio.sleep(_LONGEST_PAUSE)
        self._includes_unmarked, self._known = False, {}
        return False

    async def look(self) -> set[int]:
        """Return the ids of the command's processes without a signal. Raises as `end` does."""
        await self._count()
        return await self._pass("")

    async def _count(self) -> ProcessCount:
        """Count the processes. Near the limit, later looks start no process."""
        count = await self._handler.count() if self._handler else ProcessCount(0, None)
        owns_all = bool(self._handler and self._handler.owns_all_processes)
        takes_all = owns_all and self._selector.includes_unmarked
        self._builtins_only = count.has_low_limit or count.is_full or takes_all
        self._includes_unmarked = takes_all or (owns_all and count.is_full)
        return count

    async def kill_shell(self) -> None:
        """Send KILL to the shell, if it did not leave its command."""
        if self._selector.shell_pid:
            await self._signal("KILL", [self._selector.shell_pid])

    async def _end_fork_bomb(self, handler: ForkBombHandler, wake: bool) -> None:
        """Stop all processes, send KILL to the command's until none is found, and continue the others."""
        deadline = time.monotonic() + FORK_BOMB_LIMIT
        async with handler.stopping():
            try:
                while await self._pass("KILL", wake, handler.groups_to_stop(self._groups), thaw=False):
                    if time.monotonic() > deadline:
                        break
                    wake = False
                    await asyncio.sleep(_FIRST_PAUSE)
            finally:
                await handler.resume(self._groups)

    async def _wait(self, limit: float) -> None:
        deadline = time.monotonic() + limit
        pause, left = _FIRST_PAUSE, {0}
        while left and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            if self._builtins_only and (await self._count()).is_full:
                return
            left = await self._pass("")

    async def _kill(self) -> set[int]:
        """Send KILL until no process is found, and return the survivors.

        A process that forks and exits in an endless chain may escape a look, so each look first stops the processes.
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
        """Look once, send `signal` (or none) to the found processes, and return them.

        Args:
            signal: The signal.
            wake: True to make the shell leave the command.
            freeze: Process groups to stop during the look.
            thaw: True to continue them afterwards.
        """
        selector = self._selector
        shell = selector.shell_pid
        running = shell if self._shell_runs_it else None
        text = look(
            selector.marker,
            self._keepalive_ends,
            self._outputs,
            [*([running] if running else []), *list(self._known)[:BATCH]],
            bool(self._known or running or self._includes_unmarked),
            output_of=running if signal else None,  # a slow search, and its processes stay known
            excluded=None if selector.ends_shell else shell,
            wake=shell if wake else None,
            signal=signal,
            brand=selector.brand,
            freeze=freeze,
            thaw=thaw,
            builtins_only=self._builtins_only,
            most=self._handler.most_running if self._handler else None,
        )
        patience = LOOK_TIMEOUT + LOOK_SHARE * len(self._known)
        # The looking shell may have been killed first.
        seen = await self._ask(text, patience) or await self._ask(text, patience)
        table = ProcessTable.parse(seen)
        found = table.family(await self._roots(table)) - table.own
        if shell and not selector.ends_shell:
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
        """Return the processes of the command apart from descendants."""
        likely = table.sharing_output | (table.unmarked - {FIRST} if self._includes_unmarked else frozenset())
        shell = self._selector.shell_pid
        children = table.children(shell) if self._shell_runs_it and shell else set()
        known = table.still(self._known) | table.marked
        likely = (likely | children) - known - table.own - table.ancestors(shell or 0)
        if not likely:
            return known
        likely &= table.started_since(await self._since())
        if doubtful := likely & children - table.sharing_output:
            likely -= doubtful - await self._without_mark(doubtful)
        return known | likely

    async def _without_mark(self, children: Collection[int]) -> set[int]:
        """Return the children of the command's shell without a sign of another command."""
        shells = self._selector.marker.rstrip("/").rpartition("/")[0] + "/"
        text = await self._ask(without_keepalive(sorted(children), shells, self._keepalive_ends[0]), LOOK_TIMEOUT)
        return {int(word) for word in text.split() if is_number(word)}.intersection(children)

    async def _since(self) -> float:
        """Return the command's start in ticks of the target's clock for process starts."""
        if self._began is None:
            self._began = math.inf
            if self._selector.began < math.inf:
                # A look is slow on a loaded machine, so its own time is no measure of the command's start.
                now = parse_time(
                    await self._ask(TELL_TIME_BY_BUILTINS if self._builtins_only else TELL_TIME, LOOK_TIMEOUT)
                )
                runs_for = time.monotonic() - self._selector.began
                if now is not None:
                    self._began = math.floor(now - runs_for * TICKS)  # process starts have whole ticks
        return self._began

    async def _signal(self, signal: str, targets: Sequence[int]) -> None:
        for begin in range(0, len(targets), BATCH):
            await self._ask(signalling(signal, targets[begin : begin + BATCH]), LOOK_TIMEOUT)

    async def _ask(self, text: str, timeout: float) -> str:
        if self._builtins_only and self._handler:
            return await self._handler.run(text)
        return await self._run(text, timeout)

"""The process table of a target, parsed from one look."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from environments.errors import TerminalError

TICKS = 100
"""Ticks of /proc per second, on every Linux."""
_DEAD = "ZX"
_BY_PS = "@"
"""Prefix of a time printed by `ps`, on systems without /proc."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MOST_DIGITS = 20


class Row(NamedTuple):
    """One process."""

    parent: int
    group: int
    started: int
    """The start in ticks. Distinguishes reused process ids."""
    has_ended: bool = False
    """True for a zombie."""


class ProcessTable(NamedTuple):
    """The result of a look, see `dialect.commands.look`."""

    own: frozenset[int]
    """The processes of the look itself."""
    marked: frozenset[int]
    """Processes of the command by marker, brand or keepalive pipe."""
    sharing_output: frozenset[int]
    """Processes with the command's output as their own, possibly older than the command."""
    unmarked: frozenset[int]
    """Processes without any marker, possibly of another owner."""
    by_ps: bool
    """True for a table by `ps`: starts are in seconds, possibly one off, and the look sent no signal."""
    rows: Mapping[int, Row]
    """All running processes; empty if the look found none of interest."""

    @classmethod
    def parse(cls, text: str) -> ProcessTable:
        """Parse the output of a look.

        Raises:
            TerminalError: The text is no table, such as the error of a shell that cannot fork.
        """
        lines = text.split("\n")
        heads = [line.split() for line in lines[:5]]
        if by_ps := heads[0][2:] == [_BY_PS]:
            heads[0].pop()
        counts = len(lines) >= 5 and len(heads[0]) == 2
        if not counts or not all(map(is_number, itertools.chain(*heads))):
            raise TerminalError(f"cannot look for a command's processes: {text.strip()[:500] or 'no answer'}")
        own, marked, held, said, unmarked = ([int(word) for word in head] for head in heads)
        rows = dict(_rows(lines[5:]))
        alive = {pid: row for pid, row in rows.items() if not row.has_ended}
        found = frozenset(marked + held) - (rows.keys() - alive.keys())
        return cls(frozenset(own), found, frozenset(said), frozenset(unmarked), by_ps, alive)

    @property
    def moving(self) -> frozenset[int]:
        """Processes of the command that were gone when the table was made. Their descendants are unknown."""
        return self.marked - self.rows.keys()

    def groups(self, pids: Iterable[int]) -> set[int]:
        """Return the process groups of the running processes."""
        return {self.rows[pid].group for pid in pids if pid in self.rows}

    def children(self, pid: int) -> set[int]:
        """Return the children of a process."""
        return {child for child, row in self.rows.items() if row.parent == pid}

    @property
    def signalled(self) -> frozenset[int]:
        """The processes that received the look's signal."""
        return frozenset() if self.by_ps else self.marked

    def started_since(self, ticks: float) -> set[int]:
        """Return the processes started at a time of the target's clock, or later."""
        return {pid for pid, row in self.rows.items() if row.started + self._inexact >= ticks}

    def still(self, known: Mapping[int, int]) -> set[int]:
        """Return the processes still running, given their starts."""
        rows = {pid: self.rows[pid] for pid in known if pid in self.rows}
        return {pid for pid, row in rows.items() if abs(row.started - known[pid]) <= self._inexact}

    @property
    def _inexact(self) -> int:
        return 2 * TICKS if self.by_ps else 0

    def ancestors(self, pid: int) -> set[int]:
        """Return a process and its ancestors."""
        found: set[int] = set()
        while pid in self.rows and pid not in found:
            found.add(pid)
            pid = self.rows[pid].parent
        return found

    def family(self, roots: Iterable[int]) -> set[int]:
        """Return the running roots and all their descendants."""
        children: dict[int, list[int]] = {}
        for pid, row in self.rows.items():
            children.setdefault(row.parent, []).append(pid)
        found: set[int] = set()
        todo = [pid for pid in roots if pid in self.rows]
        while todo:
            pid = todo.pop()
            if pid not in found:
                found.add(pid)
                todo += children.get(pid, ())
        return found


def is_number(word: str) -> bool:
    """Return True if a word printed by a target is a number of reasonable size."""
    # The target may print anything: Python counts a superscript as a digit, and rejects thousands of digits.
    return word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS


def parse_time(text: str) -> int | None:
    """Return the time printed by `dialect.commands.TELL_TIME` or its variant, in ticks; None for other text."""
    line = text.strip()
    if is_number(line):
        return int(line)
    return next((row.started for _, row in _rows([line])), None)


def _rows(lines: Iterable[str]) -> Iterable[tuple[int, Row]]:
    for line in lines:
        # The name, in parentheses, may contain any character. The fields after it: state, parent, group, and start as
        # the 20th.
        head, _, tail = line.rpartition(")")
        words = tail.split()
        pid = head.partition(" ")[0]
        if words[3:4] == [_BY_PS]:
            words[3:] = ["0"] * 16 + [_ticks(words[4:])]
        if len(words) > 19 and all(map(is_number, (pid, words[1], words[2], words[19]))):
            yield int(pid), Row(int(words[1]), int(words[2]), int(words[19]), words[0][0] in _DEAD)


def _ticks(words: Sequence[str]) -> str:
    """Return the second printed by `ps`, such as `Sat Feb 29 09:05:59 2020`, in ticks."""
    from calendar import timegm  # needed on other systems alone

    try:
        _, month, day, clock, year = words
        moment = timegm((int(year), _MONTHS.index(month) + 1, int(day), *map(int, clock.split(":"))))
    except ValueError:
        return ""
    return str(moment * TICKS)

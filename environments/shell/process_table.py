"""The processes of a target, as one look at it told them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from environments.errors import TerminalError

TICKS = 100
"""A second in the unit of /proc, on every Linux there is."""
_DEAD = "ZX"
_BY_PS = "@"
"""In front of a time as `ps` tells it, where there is no /proc."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MOST_DIGITS = 20


class Row(NamedTuple):
    """One process."""

    parent: int
    group: int
    started: int
    """When it was started, in ticks, which tells it from a later one with the same id."""
    has_ended: bool = False
    """Whether it only waits for its parent to ask how it has ended."""


class ProcessTable(NamedTuple):
    """What a look found, see `dialect.commands.look`."""

    own: frozenset[int]
    """The processes that looked."""
    marked: frozenset[int]
    """Those that belong to the command by their environment, or by their leash."""
    speaking: frozenset[int]
    """Those that have its output as their own, as may what was there before it."""
    strays: frozenset[int]
    """Those that carry no mark of ours, and may be anybody's."""
    by_ps: bool
    """Whether `ps` told of them, which says starts to the second and may be one off, and nothing was signalled."""
    rows: Mapping[int, Row]
    """All that run, or none if nothing was of interest."""

    @classmethod
    def parse(cls, text: str) -> ProcessTable:
        """Read what was printed.

        Raises:
            TerminalError: It is something else, such as the error of a shell that cannot fork.
        """
        lines = text.split("\n")
        heads = [line.split() for line in lines[:5]]
        if by_ps := heads[0][2:] == [_BY_PS]:
            heads[0].pop()
        counts = len(lines) >= 5 and len(heads[0]) == 2
        if not counts or not all(map(is_number, itertools.chain(*heads))):
            raise TerminalError(f"cannot look for a command's processes: {text.strip()[:500] or 'no answer'}")
        own, marked, held, said, strays = ([int(word) for word in head] for head in heads)
        rows = dict(_rows(lines[5:]))
        alive = {pid: row for pid, row in rows.items() if not row.has_ended}
        found = frozenset(marked + held) - (rows.keys() - alive.keys())
        return cls(frozenset(own), found, frozenset(said), frozenset(strays), by_ps, alive)

    @property
    def moving(self) -> frozenset[int]:
        """Those of the command that were gone when the table was made. What they have become is not known."""
        return self.marked - self.rows.keys()

    def groups(self, pids: Iterable[int]) -> set[int]:
        """Return the process groups of those that run."""
        return {self.rows[pid].group for pid in pids if pid in self.rows}

    def children(self, pid: int) -> set[int]:
        """Return the children of a process."""
        return {child for child, row in self.rows.items() if row.parent == pid}

    @property
    def signalled(self) -> frozenset[int]:
        """Those that the look has sent its signal to."""
        return frozenset() if self.by_ps else self.marked

    def started_since(self, ticks: float) -> set[int]:
        """Return what was started at a time of the target's, or later."""
        return {pid for pid, row in self.rows.items() if row.started + self._inexact >= ticks}

    def still(self, known: Mapping[int, int]) -> set[int]:
        """Return which of some processes, each with its start, run still."""
        rows = {pid: self.rows[pid] for pid in known if pid in self.rows}
        return {pid for pid, row in rows.items() if abs(row.started - known[pid]) <= self._inexact}

    @property
    def _inexact(self) -> int:
        return 2 * TICKS if self.by_ps else 0

    def ancestors(self, pid: int) -> set[int]:
        """Return a process with all that it descends from."""
        found: set[int] = set()
        while pid in self.rows and pid not in found:
            found.add(pid)
            pid = self.rows[pid].parent
        return found

    def family(self, roots: Iterable[int]) -> set[int]:
        """Return those of `roots` that run, with all that descend from them."""
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
    """Return whether a word that a target printed is a number of no more digits than there is any use for."""
    # It may print anything: a superscript is a digit to Python too, and thousands of them are no number to it.
    return word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS


def parse_time(text: str) -> int | None:
    """Return the time that `dialect.commands.TELL_TIME` or its like printed, in ticks; None if it is something else."""
    line = text.strip()
    if is_number(line):
        return int(line)
    return next((row.started for _, row in _rows([line])), None)


def _rows(lines: Iterable[str]) -> Iterable[tuple[int, Row]]:
    for line in lines:
        # The name, in parentheses, may hold anything. Behind it: state, parent, group, and as the 20th the start.
        head, _, tail = line.rpartition(")")
        words = tail.split()
        pid = head.partition(" ")[0]
        if words[3:4] == [_BY_PS]:
            words[3:] = ["0"] * 16 + [_ticks(words[4:])]
        if len(words) > 19 and all(map(is_number, (pid, words[1], words[2], words[19]))):
            yield int(pid), Row(int(words[1]), int(words[2]), int(words[19]), words[0][0] in _DEAD)


def _ticks(words: Sequence[str]) -> str:
    """Return the second that `ps` tells as `Sat Feb 29 09:05:59 2020`, in ticks."""
    from calendar import timegm  # which no other system needs

    try:
        _, month, day, clock, year = words
        moment = timegm((int(year), _MONTHS.index(month) + 1, int(day), *map(int, clock.split(":"))))
    except ValueError:
        return ""
    return str(moment * TICKS)

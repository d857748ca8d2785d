"""The processes of a target, as one look at it told them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from environments.errors import TerminalError

_DEAD = "ZX"


@dataclass(frozen=True, slots=True)
class Row:
    """One process."""

    parent: int
    group: int
    started: str
    """When it was started, which tells it from a later one with the same id."""


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """What a look found, see `dialect.commands.look`."""

    own: frozenset[int]
    """The processes that looked."""
    marked: frozenset[int]
    """Those that belong to the command by their environment, or by their leash."""
    rows: Mapping[int, Row]
    """All that run, or none if nothing was of interest."""

    @classmethod
    def parse(cls, text: str) -> ProcessTable:
        """Read what was printed.

        Raises:
            TerminalError: It is something else, such as the error of a shell that cannot fork.
        """
        lines = text.split("\n")
        heads = [line.split() for line in lines[:3]]
        if len(lines) < 3 or len(heads[0]) != 2 or not all(word.isdigit() for head in heads for word in head):
            raise TerminalError(f"cannot look for a command's processes: {text.strip()[:500]}")
        own, *marked = ([int(word) for word in head] for head in heads)
        return cls(frozenset(own), frozenset(marked[0] + marked[1]), dict(_rows(lines[3:])))

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


def _rows(lines: Iterable[str]) -> Iterable[tuple[int, Row]]:
    for line in lines:
        # The name, in parentheses, may hold anything. Behind it: state, parent, group, and as the 20th the start.
        head, _, tail = line.rpartition(")")
        words = tail.split()
        pid = head.partition(" ")[0]
        if len(words) > 19 and pid.isdigit() and words[0] not in _DEAD:
            yield int(pid), Row(int(words[1]), int(words[2]), words[19])

"""The unified diff of one file, and how many lines it adds and removes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hermes_tools.patch.changed_lines import Change, changed_lines

_CONTEXT = 3
"""Lines shown on either side of a change."""


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What changed in a file."""

    text: str
    lines_added: int
    lines_removed: int


def unified_diff(old_path: str | None, new_path: str | None, old: str, new: str) -> FileDiff:
    """Compare two texts; a path of None stands for a file that is not there."""
    old_lines, new_lines = _lines(old), _lines(new)
    changes = list(changed_lines(old_lines, new_lines))
    text = f"--- {'a/' + old_path if old_path else '/dev/null'}\n+++ {'b/' + new_path if new_path else '/dev/null'}\n"
    if old_path and new_path and old_path != new_path:
        text = f"rename from {old_path}\nrename to {new_path}\n" + (text if changes else "")
    text += "".join(_hunk(old_lines, new_lines, group) for group in _groups(changes))
    return FileDiff(
        # Bytes that are not UTF-8 are surrogates in the text, which JSON would carry and a terminal would not.
        text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        sum(change.new_end - change.new_start for change in changes),
        sum(change.old_end - change.old_start for change in changes),
    )


def _lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _groups(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """Put changes whose context touches into one hunk."""
    group: list[Change] = []
    for change in changes:
        if group and change.old_start - group[-1].old_end > 2 * _CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _hunk(old: Sequence[str], new: Sequence[str], group: Sequence[Change]) -> str:
    first, last = group[0], group[-1]
    before = min(_CONTEXT, first.old_start)
    after = min(_CONTEXT, len(old) - last.old_end)
    old_range = _range(first.old_start - before, last.old_end + after)
    new_range = _range(first.new_start - before, last.new_end + after)
    pieces = [f"@@ -{old_range} +{new_range} @@\n"]
    at = first.old_start - before
    for change in group:
        pieces += _marked(" ", old[at : change.old_start])
        pieces += _marked("-", old[change.old_start : change.old_end])
        pieces += _marked("+", new[change.new_start : change.new_end])
        at = change.old_end
    pieces += _marked(" ", old[at : last.old_end + after])
    return "".join(pieces)


def _range(start: int, end: int) -> str:
    """Write lines of a file as a hunk's header does, where an empty range names the line before it."""
    if end - start == 1:
        return str(start + 1)
    return f"{start + 1 if end > start else start},{end - start}"


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    return [mark + (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n") for line in lines]

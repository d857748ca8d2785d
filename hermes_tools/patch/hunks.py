"""Finding where the hunks of a patch belong in a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hermes_tools.patch.closest_place import closest_place
from hermes_tools.patch.text_file import Edit, TextFile
from hermes_tools.patch.v4a import Hunk


class HunkError(Exception):
    """A hunk has no place in the file, or more than one. The message names the hunk and the lines."""


def hunk_edits(file: TextFile, hunks: Sequence[Hunk]) -> list[Edit]:
    """Return the edits that hunks make, in order. Each hunk is looked for below the one before it.

    Raises:
        HunkError: A hunk has no place, or more than one.
    """
    lines = file.text.split("\n")
    unended = lines[-1] != ""
    if not unended:
        lines.pop()
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    starts[-1] = len(file.text)
    edits: list[Edit] = []
    cursor = 0
    for hunk in hunks:
        at = _place(lines, hunk, cursor)
        edits += _edits_at(hunk, at, starts, unended)
        cursor = at + len(hunk.old)
    return edits


def _place(lines: list[str], hunk: Hunk, cursor: int) -> int:
    first = cursor
    for hint in hunk.hints:
        first = _hinted(lines, hint, first, hunk)
    if not hunk.old:
        if hunk.at_end or not lines:
            return len(lines)
        if hunk.hints:
            return max(first + 1, cursor)
        raise HunkError(
            f"hunk {hunk.number} only adds lines and does not say where: give it a line of context, a '@@' line, "
            "or '*** End of File'"
        )
    first = max(first, cursor)
    places = _matches(lines, hunk.old, first)
    if hunk.at_end:
        places = [at for at in places if at + len(hunk.old) == len(lines)]
    if not places:
        raise HunkError(_missing(lines, hunk, first))
    if len(places) > 1 and not hunk.hints:
        numbers = ", ".join(str(at + 1) for at in places)
        raise HunkError(
            f"hunk {hunk.number} fits at several places, lines {numbers}: give it more context, or a '@@' line"
        )
    return places[0]


def _hinted(lines: list[str], hint: str, first: int, hunk: Hunk) -> int:
    tests: list[Callable[[str], bool]] = [lambda line: line == hint, lambda line: line.startswith(hint)]
    # A second hunk in the same function repeats the hint, whose line is then above the first hunk.
    for span in (range(first, len(lines)), range(first)):
        for test in tests:
            for at in span:
                if test(lines[at].strip()):
                    return at
    raise HunkError(f"hunk {hunk.number}: there is no line '{hint}'; " + closest_place(lines, [hint]))


def _matches(lines: list[str], old: list[str], first: int) -> list[int]:
    """Return the places that fit exactly, or else those that fit but for white space at the ends of lines."""
    span = range(first, len(lines) - len(old) + 1)
    if exact := [at for at in span if lines[at : at + len(old)] == old]:
        return exact
    has, wants = [line.rstrip() for line in lines], [line.rstrip() for line in old]
    return [at for at in span if has[at : at + len(old)] == wants]


def _missing(lines: list[str], hunk: Hunk, first: int) -> str:
    earlier = [at + 1 for at in _matches(lines, hunk.old, 0)]
    if not earlier:
        return f"hunk {hunk.number} was not found; " + closest_place(lines, hunk.old)
    if hunk.at_end:
        return f"hunk {hunk.number} is not at the end of the file but at line {earlier[0]}"
    return (
        f"hunk {hunk.number} was not found from line {first + 1} on, only at line {earlier[0]}: "
        "hunks stand in the order of the file, below their '@@' line"
    )


def _edits_at(hunk: Hunk, at: int, starts: list[int], unended: bool) -> list[Edit]:
    """Make one edit of each run of '-' and '+' lines, so that context keeps its own text and line ends."""
    edits: list[Edit] = []
    line, run_start = at, at
    added: list[str] = []
    changing = False
    for hunk_line in (*hunk.lines, None):
        if hunk_line is not None and hunk_line.kind != " ":
            if not changing:
                run_start, changing = line, True
            if hunk_line.kind == "-":
                line += 1
            else:
                added.append(hunk_line.text)
            continue
        if changing:
            edits.append(_edit(starts, run_start, line, added, unended))
            added, changing = [], False
        line += 1
    return edits


def _edit(starts: list[int], first: int, after: int, added: list[str], unended: bool) -> Edit:
    start, end = starts[first], starts[after]
    new = "".join(f"{text}\n" for text in added)
    if unended and after == len(starts) - 1:
        # The file's last line has no newline, and the new last line is to have none either.
        if first < after:
            return Edit(start, end, new.removesuffix("\n"))
        return Edit(start, end, "\n" + new.removesuffix("\n"))
    return Edit(start, end, new)

"""The unified diff of one file, and how many lines it adds and removes."""

from __future__ import annotations

import difflib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What changed in a file."""

    text: str
    lines_added: int
    lines_removed: int


def unified_diff(old_path: str | None, new_path: str | None, old: str, new: str) -> FileDiff:
    """Compare two texts; a path of None stands for a file that is not there."""
    body = list(difflib.unified_diff(_lines(old), _lines(new), lineterm="\n"))[2:]
    text = f"--- {'a/' + old_path if old_path else '/dev/null'}\n+++ {'b/' + new_path if new_path else '/dev/null'}\n"
    if old_path and new_path and old_path != new_path:
        text = f"rename from {old_path}\nrename to {new_path}\n" + (text if body else "")
    text += "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in body)
    return FileDiff(
        # Bytes that are not UTF-8 are surrogates in the text, which JSON would carry and a terminal would not.
        text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        sum(line.startswith("+") for line in body),
        sum(line.startswith("-") for line in body),
    )


def _lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines

"""Lists of texts in files, by heading."""

from __future__ import annotations

from pathlib import Path


def texts_by_heading(path: Path) -> dict[str, list[str]]:
    """Return the texts of a list by heading. A line indented by two spaces continues the text before it."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in path.read_text().splitlines()[1:]:
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            found[heading] = []
        elif line.startswith("  "):
            found[heading][-1] += "\n" + line.removeprefix("  ")
        elif line:
            found[heading].append(line)
    return found

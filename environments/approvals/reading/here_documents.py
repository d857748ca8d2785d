"""Where a here-document ends."""

from __future__ import annotations

import re

from environments.approvals.reading.tokens import HereDocument

_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_LONGEST_DELIMITER = 1000


def end_of_body(text: str, at: int, document: HereDocument) -> tuple[int, int]:
    """Return where the body of a here-document ends, and where the text goes on behind its delimiter.

    Where something in it is expanded, a backslash at the end of a line joins it with the next, also in a delimiter.

    Args:
        text: Shell text.
        at: Where the body begins.
        document: Says what ends it.
    """
    before, continued = at, ""
    while at < len(text):
        end = text.find("\n", at)
        end = end if end >= 0 else len(text)
        line = continued + text[at:end]
        before, at = before if continued else at, end + 1
        if document.expands and len(line) < _LONGEST_DELIMITER and _CONTINUED.search(line):
            continued = line[:-1]
            continue
        continued = ""
        if (line.lstrip("\t") if document.strips_tabs else line) == document.delimiter:
            return before, at
    return len(text), len(text)

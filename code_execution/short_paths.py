"""Paths in the script's private directory, said by the name of the file alone: a model pays for each character."""

from __future__ import annotations

import re
from functools import cached_property

SCRIPT = "script.py"
STUB = "hermes_tools.py"


class ShortPaths:
    """Shortens the paths of the script and its stub in an output that comes in pieces.

    Args:
        directory: The directory.
        in_tracebacks: Whether they are shortened only as tracebacks name them, `File "PATH"`.
    """

    def __init__(self, directory: str, *, in_tracebacks: bool) -> None:
        before = b'File "' if in_tracebacks else b""
        behind = b'"' if in_tracebacks else b""
        self._place = directory.encode() + b"/"
        self._long = [before + self._place + name.encode() + behind for name in (SCRIPT, STUB)]
        self._held = b""

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        """Made only for an output that names the directory: it takes as long as half of all that we do for a script."""
        return re.compile(b"|".join(map(re.escape, self._long)))

    def feed(self, data: bytes, final: bool = False) -> bytes:
        """Take the next bytes and return what can be shown.

        Args:
            data: The bytes.
            final: Whether nothing more comes, so that nothing is held back.
        """
        data = self._held + data
        if self._place in data:
            data, rest = self._shortened(data)
        else:
            data, rest = b"", data
        keep = len(rest) if final else self._beginning(rest)
        self._held = rest[keep:]
        return data + rest[:keep]

    def _shortened(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what comes up to the last path, with all of them shortened, and what comes behind it."""
        parts, position = [], 0
        for found in self._pattern.finditer(data):
            parts += [data[position : found.start()], found[0].replace(self._place, b"")]
            position = found.end()
        return b"".join(parts), data[position:]

    def _beginning(self, data: bytes) -> int:
        """Return where the end of `data` may begin one of the paths; its length if it does not."""
        longest = max(map(len, self._long))
        start = max(0, len(data) - longest + 1)
        first = self._long[0][:1]
        while (start := data.find(first, start)) >= 0:
            if any(path.startswith(data[start:]) for path in self._long):
                return start
            start += 1
        return len(data)

"""What a script's start says to us on standard error: which Python was chosen, and that this has begun.

Each is byte 30, a word that only this start knows, a space, the number of the Python or `+`, and a line end. Behind the
`+` comes the script, of which nothing is listened to, but for one message if it was forked, see `warm`: byte 30, and a
secret that the script never has, with which is said that nothing is left of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from code_execution.interpreter import NOT_FOUND, NUMBER, Pythons

NO_DIRECTORY, NO_FILES = "directory", "files"
TOOLS_WANTED = "tools"
FILES_LEFT, PROCESSES_LEFT = "files", "processes"
_LONGEST = 80


class Beginning:
    """Takes these messages out of what is said on standard error."""

    def __init__(self) -> None:
        self.word = secrets.token_hex(8)
        self.chosen: int | None = None
        """The number of the Python that was chosen."""
        self.none_found = False
        """Whether there was none to choose."""
        self.begun = False
        """Whether the script's Python has begun."""
        self.failed = ""
        """What could not be done before: `NO_DIRECTORY` or `NO_FILES`."""
        self.secret = ""
        """With what the end of a script that was forked is told; empty for others."""
        self.no_process_left = self.no_file_left = False
        """Whether it is known that the script, and all it started, has ended, and that its directory is gone."""
        self.on_tools_wanted: Callable[[], object] | None = None
        """Called when the script is about to call a tool for the first time, if it was forked."""
        self._marker = b"\x1e" + self.word.encode() + b" "
        self._held = b""

    def choosing(self, pythons: Pythons) -> str:
        """Return shell text that chooses a Python and says which, or ends the shell."""
        said = f"printf '\\036{self.word} %s\\n'"
        none = f'[ -n "${NUMBER}" ] || {{ {said} - >&2; exit {NOT_FOUND}; }}'
        return f'{pythons.choosing()}{none}\n{said} "${NUMBER}" >&2\n'

    def failing(self, what: str) -> str:
        """Return shell text that says what could not be done, and ends the shell."""
        return f"{{ printf '\\036{self.word} {what}\\n' >&2; exit 1; }}"

    def feed(self, data: bytes, final: bool = False) -> bytes:
        """Take what comes, and return what is not for us.

        Args:
            data: The next bytes.
            final: Whether nothing more comes, so that nothing is held back.
        """
        if self.begun and not self.secret:
            return data
        data, passed = self._held + data, b""
        while not self.begun or self.secret:
            found = data.find(self._marker)
            end = data.find(b"\n", found)
            if min(found, end) < 0:
                break
            known = self._take(data[found + len(self._marker) : end])
            passed, data = passed + data[: found if known else end + 1], data[end + 1 :]
        keep = len(data) if final or (self.begun and not self.secret) else _message_start(data, self._marker)
        self._held = data[keep:]
        return passed + data[:keep]

    def _take(self, said: bytes) -> bool:
        """Take what was said, and return whether it was said to us: a script may have learned the word."""
        if self.begun:
            return self._take_from_forked(said)
        self.begun = said == b"+"
        self.none_found = said == b"-"
        if said in (NO_DIRECTORY.encode(), NO_FILES.encode()):
            self.failed = said.decode()
        if said.isdigit() and len(said) < _LONGEST:
            self.chosen = int(said)
        return True

    def _take_from_forked(self, said: bytes) -> bool:
        if said == TOOLS_WANTED.encode():
            wanted, self.on_tools_wanted = self.on_tools_wanted, None
            if wanted:
                wanted()
            return True
        if not said.startswith(self.secret.encode()):
            return False
        left = said[len(self.secret) :].decode("utf-8", "replace")
        self.no_process_left, self.no_file_left = left in (FILES_LEFT, ""), left == ""
        self.secret = ""
        return True


def _message_start(data: bytes, marker: bytes) -> int:
    """Return where the end of `data` may begin a message; its length if it does not."""
    start = max(0, len(data) - _LONGEST)
    while (start := data.find(marker[:1], start)) >= 0:
        if data.startswith(marker, start) or marker.startswith(data[start:]):
            return start
        start += 1
    return len(data)

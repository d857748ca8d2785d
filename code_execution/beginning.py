"""What a script's start says to us on standard error: which Python was chosen, and that this has begun.

Each is byte 30, a word that only this start knows, a space, the number of the Python or `+`, and a line end. Behind the
`+` comes the script, of which nothing is listened to.
"""

from __future__ import annotations

import secrets

from code_execution.interpreter import CHOSEN, NUMBER, Pythons

NOT_FOUND = 127
"""Exit code when there is no Python."""
_LONGEST = 32


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
        self._marker = b"\x1e" + self.word.encode() + b" "
        self._held = b""

    def choosing(self, pythons: Pythons) -> str:
        """Return shell text that chooses a Python and says which, or ends the shell."""
        said = f"printf '\\036{self.word} %s\\n'"
        none = f'[ -n "${NUMBER}" ] || {{ {said} - >&2; exit {NOT_FOUND}; }}'
        return f'{pythons.choosing()}{none}\n{said} "${NUMBER}" >&2\n'

    @property
    def command(self) -> str:
        """Shell text: the Python that was chosen."""
        return f'"${CHOSEN}"'

    def feed(self, data: bytes, final: bool = False) -> bytes:
        """Take what comes, and return what is not for us.

        Args:
            data: The next bytes.
            final: Whether nothing more comes, so that nothing is held back.
        """
        if self.begun:
            return data
        data, passed = self._held + data, b""
        while not self.begun and (found := data.find(self._marker)) >= 0 and (end := data.find(b"\n", found)) >= 0:
            self._take(data[found + len(self._marker) : end])
            passed, data = passed + data[:found], data[end + 1 :]
        keep = len(data) if self.begun or final else _message_start(data, self._marker)
        self._held = data[keep:]
        return passed + data[:keep]

    def _take(self, said: bytes) -> None:
        self.begun = said == b"+"
        self.none_found = said == b"-"
        if said.isdigit() and len(said) < _LONGEST:
            self.chosen = int(said)


def _message_start(data: bytes, marker: bytes) -> int:
    """Return where the end of `data` may begin a message; its length if it does not."""
    start = max(0, len(data) - _LONGEST)
    while (start := data.find(marker[:1], start)) >= 0:
        if data.startswith(marker, start) or marker.startswith(data[start:]):
            return start
        start += 1
    return len(data)

"""Patterns of commands, as they are written in config.yaml."""

from __future__ import annotations

import posixpath
import shlex
from fnmatch import fnmatchcase

from environments.approvals.command import UNKNOWN, Command
from environments.errors import SettingsError

_ANY = "*"
_HARMLESS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


class CommandPattern:
    """A pattern of what is denied or asked about.

    It is generous: more words may follow, `*` is any text, and capitals are as small letters.
    """

    def __init__(self, pattern: str) -> None:
        self._written = " ".join(pattern.split())
        self._pattern = self._written.lower()

    def __str__(self) -> str:
        return self._written

    def fits(self, command: Command) -> bool:
        """Whether it names a command, wherever its program lies."""
        return self.fits_text(command.line) or self.fits_text(" ".join((command.name, *command.texts)))

    def fits_text(self, text: str) -> bool:
        """Whether it names a text as a whole."""
        text = text.lower()
        return fnmatchcase(text, self._pattern) or fnmatchcase(text, f"{self._pattern} *")


class AllowedCommand:
    """A pattern of what is allowed. It is strict, word by word, so that nothing can be put behind or within.

    Only a `*` that is the last word stands for more words. Raises SettingsError when it cannot be split into words.
    """

    def __init__(self, pattern: str) -> None:
        self._text = pattern.strip()
        try:
            words = shlex.split(pattern)
        except ValueError as error:
            raise SettingsError(f"approvals.allow: the pattern {pattern!r} cannot be read: {error}") from None
        self._more = bool(words) and words[-1] == _ANY
        self._words = words[:-1] if self._more else words

    def is_text(self, text: str) -> bool:
        """Whether it is a text as a whole, to the letter."""
        return text.strip() == self._text

    def covers(self, command: Command) -> bool:
        """Whether it names a command that is known to the last word, sets no variable and writes to no file."""
        written = [redirect.target.text for redirect in command.redirects if redirect.writes]
        if command.assignments or not _HARMLESS.issuperset(written):
            return False
        words = [word.text for word in command.words]
        if not words or len(words) < len(self._words) or (len(words) > len(self._words) and not self._more):
            return False
        if any(UNKNOWN in word for word in words):
            return False
        return all(map(_fits, words, self._words))


def _fits(word: str, pattern: str) -> bool:
    climbs = ".." in word.split("/") and posixpath.normpath(word) != posixpath.normpath(pattern)
    return word == pattern or (not climbs and fnmatchcase(word, pattern))

"""What is known of variables: those that the text itself sets, and those that have the same meaning everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from environments.approvals.command import UNKNOWN

_MAX_VALUE = 4096
"""Characters of a longer value are not followed: values made of values grow fast."""
_EVERYWHERE = {
    "HOME": "~",
    "PWD": ".",
    "TMPDIR": "/tmp",  # noqa: S108 - what it stands for, and not a file of ours
    "USER": "user",
    "LOGNAME": "user",
    "IFS": " ",
    "SHELL": "sh",
    "BASH": "bash",
    "PYTHON": "python",
    "CC": "cc",
    "CXX": "c++",
    "MAKE": "make",
    "EDITOR": "vi",
    "PAGER": "less",
    "UID": "0",
    "EUID": "0",
    "RANDOM": "1",
    "SECONDS": "1",
    "?": "0",
    "$": "4321",
    "!": "4321",
    "-": "",
    "0": "sh",
}


@dataclass(frozen=True, slots=True)
class Value:
    """What a variable holds."""

    words: tuple[str, ...]
    """One, or the elements of an array, or what a loop goes through."""
    splits: bool = False
    """Whether it stands for each of its words, also in quotes."""

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join(self.words)


class Variables:
    """The variables at one place of a text."""

    def __init__(self, known: dict[str, Value] | None = None, *, has_arguments: bool = False) -> None:
        self._known = known or {}
        self._has_arguments = has_arguments

    def copy(self, *, has_arguments: bool | None = None) -> Variables:
        """Return them for a subshell, or for a function, whose arguments are its caller's."""
        return Variables(
            dict(self._known), has_arguments=self._has_arguments if has_arguments is None else has_arguments
        )

    def set(self, name: str, words: Sequence[str], *, splits: bool = False, appends: bool = False) -> None:
        """Give a variable its value."""
        before = self._known[name].words if appends and name in self._known else ()
        value = Value((*before, *words) if splits else ("".join((*before, *words)),), splits)
        if len(value.text) > _MAX_VALUE:
            value = Value((UNKNOWN,))
        self._known[name] = value

    def forget(self, name: str) -> None:
        """Take a variable for one that is set elsewhere."""
        self._known[name] = Value((UNKNOWN,))

    def set_arguments(self, words: Sequence[str]) -> None:
        """Do what `set -- words` does."""
        for name in ("@", "*"):
            self.set(name, words, splits=True)
        for number in range(1, 10):
            self.set(str(number), words[number - 1 : number])

    def get(self, name: str, index: str = "") -> Value | None:
        """Return what a variable holds; None when that is not known."""
        value = self._known.get(name)
        if value is None:
            return self._unset(name)
        if index.isdigit() and value.splits:
            return Value(value.words[int(index) : int(index) + 1] if len(index) < 5 else ())
        return value

    def _unset(self, name: str) -> Value | None:
        if name in ("@", "*", "#") or (name.isdigit() and name != "0"):
            return None if self._has_arguments else Value(("",))
        return Value((_EVERYWHERE[name],)) if name in _EVERYWHERE else None

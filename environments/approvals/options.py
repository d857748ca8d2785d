"""Options and operands of a command, as getopt tells them apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from environments.approvals.command import Word


@dataclass(frozen=True, slots=True)
class Options:
    """What stands behind a program."""

    letters: frozenset[str]
    """Those of `-rf`."""
    names: frozenset[str]
    """Those of `--force` and `--mode=x`, without dashes and values."""
    operands: tuple[Word, ...]
    values: tuple[tuple[str, str], ...] = ()
    """Options with their values, as they were written."""

    @classmethod
    def of(cls, words: Sequence[Word], valued: Collection[str] = (), *, first_ends: bool = False) -> Options:
        """Tell them apart.

        Args:
            words: The arguments.
            valued: Options that are followed by a value, with their dashes.
            first_ends: Whether the first operand ends the options, as before a command.
        """
        letters: set[str] = set()
        names: set[str] = set()
        operands: list[Word] = []
        values: list[tuple[str, str]] = []
        at = 0
        while at < len(words):
            text = words[at].text
            at += 1
            if text == "--" or (first_ends and not _is_option(text)):
                operands += words[at if text == "--" else at - 1 :]
                break
            if not _is_option(text):
                operands.append(words[at - 1])
                continue
            name, equals, value = text.partition("=")
            if text.startswith("--"):
                names.add(name[2:])
            elif name not in valued:
                name, value = _cluster(text, valued)
                equals = value
                letters |= set(text[1 : len(text) - len(value)])
            else:
                letters.add(text[1])
            if equals:
                values.append((name, value))
            elif name in valued and at < len(words):
                values.append((name, words[at].text))
                at += 1
        return cls(frozenset(letters), frozenset(names), tuple(operands), tuple(values))

    def has(self, letters: str = "", *names: str) -> bool:
        """Whether one of some letters, or of some long names or a beginning of one, is given."""
        if not self.letters.isdisjoint(letters):
            return True
        return any(name.startswith(given) for given in self.names if given for name in names)

    def value(self, *options: str) -> str:
        """Return the value of the first option of some that has one, or nothing."""
        return next((value for option, value in self.values if option in options), "")


def behind_dashes(words: Sequence[Word]) -> Sequence[Word]:
    """Return words without a `--` in front of them."""
    return words[1:] if words and words[0].text == "--" else words


def _is_option(text: str) -> bool:
    return len(text) > 1 and text.startswith("-")


def _cluster(text: str, valued: Collection[str]) -> tuple[str, str]:
    """Return the first option of some letters that takes a value, and the value where it is attached."""
    for at, letter in enumerate(text[1:], 2):
        if "-" + letter in valued:
            return "-" + letter, text[at:].removeprefix("=")
    return text, ""

"""A small parser for shell text, used without tree-sitter: lists and pipelines of plain words.

All other text counts as unread.
"""

from __future__ import annotations

import re
import shlex

from environments.approvals.budget import MAX_CHARACTERS
from environments.approvals.command import Command, Word, word_set
from environments.approvals.reader import Reading
from environments.approvals.wrappers import nested_commands

_WORD = re.compile(r"""(?:[\w@%+:,./=-]|'[^']*'|"[^"$`\\]*")+""", re.ASCII)
_BLANKS = re.compile(r"[ \t]*")
_OPERATOR = re.compile(r"(&&|\|\|?|;(?!;)|\n)[ \t\n]*")
_SYNTAX = word_set(
    "if then elif else fi for while until do done case esac select function time coproc alias hash enable"
)
"""Keywords, and builtins that change the meaning of later commands."""
_MAX_DEPTH = 24
_UNREAD = "it cannot be seen through without the extra `approvals`"


def read_plain_text(text: str, start: str = "") -> Reading:
    """Parse a list of simple commands of plain or quoted words. No part of the text is run.

    Args:
        text: Shell text. An expansion, a redirection, an assignment or a keyword makes the whole text unread.
        start: The absolute directory at the start of the text; empty if not known.
    """
    if len(text) > MAX_CHARACTERS:
        return Reading(unread=f"it is too long to be judged: {len(text):,} characters of at most {MAX_CHARACTERS:,}")
    commands: list[Command] = []
    findings: list[str] = []
    texts = [(text, 0)]
    while texts:
        shell_text, depth = texts.pop()
        found = _commands(shell_text, start)
        if found is None or depth > _MAX_DEPTH:
            return Reading(tuple(commands), tuple(dict.fromkeys(findings)), _UNREAD)
        left = [(command, depth) for command in found]
        while left:
            command, level = left.pop(0)
            commands.append(command)
            inner = nested_commands(command)
            findings += inner.reasons
            if level >= _MAX_DEPTH and (inner.commands or inner.texts):
                return Reading(tuple(commands), tuple(dict.fromkeys(findings)), _UNREAD)
            left += [(one, level + 1) for one in (*inner.commands, *inner.guesses)]
            texts += [(one, level + 1) for one in inner.texts]
    return Reading(tuple(commands), tuple(dict.fromkeys(findings)))


def _commands(text: str, start: str) -> list[Command] | None:
    """Split a text into its commands; None if the text has more than plain words."""
    commands: list[Command] = []
    found_words: list[Word] = []
    at, is_fed = 0, False
    text = text.strip(" \t\n")
    text += "\n" if text else ""
    while at < len(text):
        if found := _WORD.match(text, at):
            found_words.append(Word(shlex.split(found[0])[0]))
        elif (found := _OPERATOR.match(text, at)) and found_words:
            commands.append(Command(tuple(found_words), producers=(commands[-1],) if is_fed else (), start=start))
            found_words, is_fed = [], found[1] == "|"
        else:
            return None
        at = _BLANKS.match(text, found.end()).end()  # type: ignore[union-attr]
    is_plain = all("=" not in one.words[0].text and one.words[0].text not in _SYNTAX for one in commands)
    return commands if is_plain else None

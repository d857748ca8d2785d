"""Which command of a shell text decides its exit code, as far as that can be told from the text."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from environments.approvals.command import UNKNOWN, Command, Word
from environments.approvals.reading.budget import MAX_CHARACTERS, Budget, TooMuchError
from environments.approvals.reading.effects import assigned
from environments.approvals.reading.fronts import behind
from environments.approvals.reading.lexer import Lexer
from environments.approvals.reading.names import names
from environments.approvals.reading.tokens import REDIRECTIONS, Literal, Operator, RawWord, Token

_HAND_ON = frozenset(
    names("sudo doas env nice ionice nohup command builtin exec time timeout stdbuf busybox uv poetry pipenv")
)
"""Programs that run the command behind them, and end with its exit code."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_COMPOUND = frozenset({"fi", "done", "esac"})
_SKIPPED = frozenset({"{", "}", "then", "else", "elif", "do", "time", "if", "while", "until"})
"""Reserved words that stand in front of a command or behind one, and change nothing of its exit code."""
_GROUPS = frozenset({"{", "}", "(", ")"})
_ENDS = frozenset({";", "&", "&&", "||", "|", "|&", "\n", "(", ")", ";;", ";&", ";;&"})
_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class LastCommand:
    """The command that ran last if all went as it was written."""

    words: tuple[str, ...]
    """The program and its arguments, with `UNKNOWN` for what is not known before it runs."""
    conditional: bool = False
    """Whether it runs only if what stands before its `&&` has succeeded, so that this may have decided instead."""
    front: str = ""
    """The program that ran it, such as `timeout`."""

    @property
    def name(self) -> str:
        """The program without its directory; `[[` for all that ends with `]]`, as `&&` within it cuts it in pieces."""
        return "[[" if self.words[-1] == "]]" else posixpath.basename(self.words[0])


def last_command(text: str, depth: int = 0) -> LastCommand | None:
    """Return the last command of the last pipeline of a shell text, without what stands in front of it, as sudo does.

    None where that is not the one that decides (a negation, an `if`, a loop over nothing, a background job), and where
    the text cannot be read.

    Args:
        text: Shell text.
        depth: How many shells have been entered to come to it.
    """
    if len(text) > MAX_CHARACTERS or depth > _DEEPEST:
        return None
    budget = Budget()
    try:
        tokens = Lexer(text, budget).tokens()
    except (TooMuchError, RecursionError):
        return None
    found = None if budget.unclosed else _last_of(tokens)
    return _without_front(found, depth) if found else None


def _last_of(tokens: Sequence[Token]) -> LastCommand | None:
    segment: list[RawWord] = []
    last: LastCommand | None = None
    conditional = [False]  # in each of the groups that are open
    is_target = False
    for token in tokens:
        if isinstance(token, RawWord):
            if not is_target and (segment or token.bare not in _SKIPPED):
                segment.append(token)
            elif token.bare in _GROUPS and not is_target:
                _enter_or_leave(conditional, token.bare)
            is_target = False
        elif isinstance(token, Operator):
            is_target = token.text in REDIRECTIONS
            if token.text not in _ENDS:
                continue
            if token.text == "(" and token.glued:  # a function, or an array
                return None
            if segment:
                last = _command(segment, any(conditional))
                segment = []
            if token.text == "&":
                last = None
            if token.text in _GROUPS:
                _enter_or_leave(conditional, token.text)
            elif token.text not in ("|", "|&"):
                conditional[-1] = token.text == "&&"
    return _command(segment, any(conditional)) if segment else last


def _enter_or_leave(conditional: list[bool], sign: str) -> None:
    if sign in ("(", "{"):
        conditional.append(False)
    elif len(conditional) > 1:
        conditional.pop()


def _command(segment: list[RawWord], conditional: bool) -> LastCommand | None:
    first = segment[0].bare
    if first in _COMPOUND or first == "!":
        return None
    words = list(segment)
    while words and assigned(words[0]):
        words.pop(0)
    return LastCommand(tuple(map(_text, words)), conditional) if words else None


def _text(word: RawWord) -> str:
    return "".join(part.text if isinstance(part, Literal) else UNKNOWN for part in word.parts)


def _without_front(last: LastCommand, depth: int) -> LastCommand | None:
    """Return the command that programs such as sudo, or a shell with `-c`, run in their turn."""
    for _ in range(_DEEPEST):
        if last.name in _SHELLS and "-c" in last.words[1:-1]:
            inner = last_command(last.words[last.words.index("-c") + 1], depth + 1)
            if inner is None:
                return None
            return LastCommand(inner.words, last.conditional or inner.conditional, last.front or inner.front)
        if last.name not in _HAND_ON:
            break
        carried = behind(Command(tuple(map(Word, last.words))), last.name).commands
        if not carried:
            break
        words = tuple(word.text for word in carried[0].words)
        last = LastCommand(words, last.conditional, last.front or last.name)
    return last

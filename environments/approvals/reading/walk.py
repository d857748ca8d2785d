"""Which commands there are in a row of tokens, and which of them feeds which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from environments.approvals.command import Command
from environments.approvals.reading.effects import Effects, assigned
from environments.approvals.reading.segment import Segment
from environments.approvals.reading.tokens import OPENING, REDIRECTIONS, HereDocument, Operator, RawWord, Token

_CLOSING = frozenset({"}", "fi", "done", "esac"})
_BLOCKS = frozenset({"{", "if", "while", "until", "for", "select", "case"})
_LOOPS = frozenset({"for", "select"})


@dataclass(slots=True)
class _Group:
    """A compound command that has begun."""

    kind: str
    """`(`, a reserved word, or `function`."""
    feeding: tuple[Command, ...]
    element: list[Command]
    """What stood before it in its element of the pipeline."""
    function: str = ""
    effects: Effects | None = None
    """To be put back where it ends."""
    commands: list[Command] = field(default_factory=list)
    in_pattern: bool = False
    """Whether a pattern of a case is being read."""


class Shell(Protocol):
    """What carries out what the walk meets."""

    findings: list[str]

    def command(self, segment: Segment, feeding: tuple[Command, ...]) -> Command | None:
        """Expand a simple command, note it with what it carries, and return it."""

    def note(self, command: Command) -> Command:
        """Note a command where things stand, and what it carries."""

    def check_depth(self, depth: int, commands: int = 0) -> None:
        """Raise TooMuchError where compound commands are nested too deep, each of which counts those in it again."""

    def loop_over(self, name: str, words: Sequence[RawWord]) -> None:
        """Give a loop's variable all that it goes through."""

    def array(self, name: str, words: Sequence[RawWord], *, appends: bool) -> None:
        """Give an array its elements."""

    def evaluate(self, words: Sequence[RawWord]) -> None:
        """Have the substitutions in words read that are no command's."""

    def enter(self, *, has_arguments: bool = False) -> Effects:
        """Begin a subshell or function, and return what to put back where it ends."""

    def leave(self, before: Effects) -> None:
        """End it."""


class Walk:
    """One pass over tokens: which commands there are, and which of them feeds which."""

    def __init__(self, reader: Shell, tokens: list[Token], feeding: tuple[Command, ...]) -> None:
        self._reader = reader
        self._tokens = tokens
        self._at = 0
        self._segment = Segment()
        self._feeding = feeding
        self._element: list[Command] = []
        self._groups = [_Group("", feeding, [])]
        self._ended: _Group | None = None
        """The group that has just ended, to which redirections that follow belong."""
        self._function = ""

    def run(self) -> tuple[Command, ...]:
        """Go to the end, and return the commands met."""
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if isinstance(token, HereDocument):
                self._segment.documents.append(token)
            elif isinstance(token, RawWord):
                self._word(token)
            elif self._groups[-1].in_pattern:
                self._in_pattern(token.text)
            elif token.text in REDIRECTIONS:
                self._segment.pending = token.text
            elif token.text == "(":
                self._parenthesis(token)
            elif token.text == ")":
                self._closing_parenthesis()
            else:
                self._end_of_command(token.text)
        self._finish()
        while len(self._groups) > 1:
            self._close()
        return tuple(self._groups[0].commands)

    def _word(self, word: RawWord) -> None:
        segment = self._segment
        if segment.pending:
            segment.redirects.append((segment.pending, word))
            segment.pending = ""
        elif not segment.empty or not self._reserved(word.bare):
            segment.words.append(word)

    def _reserved(self, bare: str) -> bool:
        """Take note of a reserved word where a command begins; say whether it is one."""
        if bare in _CLOSING:
            if len(self._groups) > 1 and self._groups[-1].kind not in ("", "("):
                self._close()
            return True
        if bare == "function" and (name := self._next_bare()):
            self._function, self._at = name, self._at + 1
            if self._next_is("(") and self._next_is(")", 1):
                self._at += 2
            return True
        if bare in _BLOCKS:
            self._open("function" if bare == "{" and self._function else bare)
        if bare in _LOOPS or bare == "case":
            self._read_head(bare)
            self._groups[-1].in_pattern = bare == "case"
        if bare == "coproc" and self._next_is_block(1):
            self._at += 1  # its name
        while bare == "time" and self._next_bare().startswith("-"):
            self._at += 1
        return bare in OPENING or bare in _BLOCKS

    def _read_head(self, kind: str) -> None:
        """Read `for NAME in WORDS` or `case WORD in`."""
        words: list[RawWord] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if not isinstance(token, RawWord) or (kind == "case" and words and words[-1].bare == "in"):
                break
            words.append(token)
            self._at += 1
        if kind in _LOOPS and words and words[0].bare:
            self._reader.loop_over(words[0].bare, words[2:])
        else:
            self._reader.evaluate(words)

    def _next_bare(self) -> str:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        return token.bare if isinstance(token, RawWord) else ""

    def _next_is_block(self, ahead: int) -> bool:
        token = self._tokens[self._at + ahead] if self._at + ahead < len(self._tokens) else None
        return isinstance(token, RawWord) and token.bare in _BLOCKS

    def _next_is(self, sign: str, ahead: int = 0) -> bool:
        token = self._tokens[self._at + ahead] if self._at + ahead < len(self._tokens) else None
        return isinstance(token, Operator) and token.text == sign

    # Groups.

    def _parenthesis(self, token: Operator) -> None:
        words = self._segment.words
        if len(words) == 1 and words[0].bare and self._next_is(")"):
            self._function, self._at = words[0].bare, self._at + 1
            self._segment = Segment()
        elif words and token.glued and (found := assigned(words[-1])) and not found[2].parts:
            words.pop()
            self._reader.array(found[0], self._elements(), appends=found[1])
        else:
            self._finish()
            self._open("(")

    def _elements(self) -> list[RawWord]:
        words: list[RawWord] = []
        while self._at < len(self._tokens) and not self._next_is(")"):
            token = self._tokens[self._at]
            if isinstance(token, RawWord):
                words.append(token)
            self._at += 1
        self._at += 1
        return words

    def _open(self, kind: str) -> None:
        self._reader.check_depth(len(self._groups))
        group = _Group(kind, self._feeding, self._element, self._function)
        if kind == "(" or self._function:
            group.effects = self._reader.enter(has_arguments=bool(self._function))
        self._function = ""
        self._groups.append(group)
        self._element = []

    def _closing_parenthesis(self) -> None:
        if self._groups[-1].kind == "(":
            self._finish()
            self._close()
        else:  # nothing has opened it
            self._end_of_command(";")

    def _in_pattern(self, sign: str) -> None:
        self._reader.evaluate(self._segment.words)
        self._segment = Segment()
        self._groups[-1].in_pattern = sign != ")"

    def _close(self) -> None:
        group = self._groups.pop()
        if group.effects:
            self._reader.leave(group.effects)
        self._reader.check_depth(len(self._groups), len(group.element) + 2 * len(group.commands))
        self._groups[-1].commands += group.commands
        self._element = [*group.element, *group.commands]
        self._feeding = group.feeding
        self._ended = group

    # Commands.

    def _end_of_command(self, sign: str) -> None:
        had_words = not self._segment.empty
        self._finish()
        if sign in ("|", "|&", "&"):
            self._look_for_bomb()
        elif sign in (";;", ";&", ";;&") and self._groups[-1].kind == "case":
            self._groups[-1].in_pattern = True
        if sign in ("|", "|&"):
            self._feeding, self._element = tuple(self._element), []
        elif sign != "\n" or had_words or self._element:
            self._feeding, self._element = self._groups[-1].feeding, []
        self._ended = None

    def _look_for_bomb(self) -> None:
        own = {group.function for group in self._groups if group.function}
        if own and any(command.name in own for command in self._element):
            self._reader.findings.append("it is a fork bomb: a function that starts itself over and over")

    def _finish(self) -> None:
        """Note the simple command that has been read."""
        segment, self._segment = self._segment, Segment()
        if segment.empty:
            return
        ended, self._ended = self._ended, None
        command = self._reader.command(segment, self._feeding)
        if command is None:
            return
        self._element.append(command)
        self._groups[-1].commands.append(command)
        if ended and not command.words and (command.given is not None or command.fed_by):
            for inner in ended.commands:  # what is redirected to a group is read by the commands in it
                if not inner.fed_by and inner.given is None:
                    self._reader.note(replace(inner, given=command.given, fed_by=command.fed_by))

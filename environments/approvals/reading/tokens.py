"""What shell text is made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from environments.approvals.reading.names import names

GLOB = frozenset("*?[")


@dataclass(slots=True)
class Literal:
    """Text as it stands, without its quotes and backslashes."""

    text: str
    quoted: bool


@dataclass(slots=True)
class Variable:
    """`$name`, or `${name...}` with an operator and its operand."""

    name: str
    quoted: bool
    index: str = ""
    """What stands in brackets, as in `${a[0]}`."""
    operator: str = ""
    operand: RawWord | None = None


@dataclass(slots=True)
class Substitution:
    """`$(...)` or backquotes; `<(...)` and `>(...)` too; and what is substituted within an arithmetic expression."""

    tokens: list[Token]
    quoted: bool
    kind: str = "$"
    """`$`, `<` or `>`; `1` for arithmetic, which gives a number. Of that, the first token is the expression, and the
    others are what bash may run instead."""


Part = Literal | Variable | Substitution


@dataclass(slots=True)
class RawWord:
    """One word before anything in it is expanded."""

    parts: list[Part] = field(default_factory=list)

    @property
    def bare(self) -> str:
        """Its text if nothing in it is quoted or expanded, as it must be of reserved words; else empty."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Literal) and not self.parts[0].quoted:
            return self.parts[0].text
        return ""


@dataclass(slots=True)
class HereDocument:
    """`<<WORD`; its body is known once the line has ended."""

    delimiter: str
    expands: bool
    strips_tabs: bool
    body: RawWord = field(default_factory=RawWord)


@dataclass(slots=True)
class Operator:
    """What ends a command or redirects it."""

    text: str
    glued: bool
    """Whether it follows a word without a blank."""


Token = RawWord | HereDocument | Operator

REDIRECTIONS = frozenset(names("< > >> >| <> <& >& &> &>> <<<"))
OPENING = frozenset(names("if then elif else while until do { ! time coproc"))
"""Reserved words that a command follows."""

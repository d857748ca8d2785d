"""Quotes, escapes, brace expansion and word splitting of shell text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from environments.approvals.budget import TooMuchError
from environments.approvals.command import UNKNOWN, Command, Word

_MAX_ALTERNATIVES = 256
_GLOB = frozenset("*?[")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|0?([0-7]{1,3})|c(.)|(.))", re.S)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(-?\d+|[a-zA-Z])\.\.(-?\d+|[a-zA-Z])(?:\.\.-?\d+)?")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a word."""

    text: str
    quoted: bool = True
    expanded: bool = False
    """True for the value of an expansion. Without quotes, blanks split the value."""
    glob: bool = False
    """True for a glob despite quotes: the variable of a loop over `/*`."""
    ends: bool = False
    """True if a new word begins behind the piece, as between the elements of `"${a[@]}"`."""
    producers: tuple[Command, ...] = ()


def plain(text: str, *, quoted: bool) -> list[Piece]:
    """Return the pieces of a text without expansions, within double quotes or outside of quotes."""
    if not text:
        return []
    return [Piece(in_quotes(text))] if quoted else unescaped(text)


def unescaped(text: str) -> list[Piece]:
    """Return the pieces of an unquoted text."""
    if "\\" not in text:
        return [Piece(text, quoted=False)]
    pieces = []
    for found in re.finditer(r"\\(\n|.)|[^\\]+|\\", text, re.DOTALL):
        if found[1] is None:
            pieces.append(Piece(found[0], quoted=False))
        elif found[1] != "\n":
            pieces.append(Piece(found[1]))
    return pieces


def in_quotes(text: str, escapable: str = '$`"\\\n') -> str:
    """Return the text of a string in double quotes without its backslashes."""
    if "\\" not in text:
        return text
    return re.sub(
        r"\\(.)", lambda found: found[1].strip("\n") if found[1] in escapable else found[0], text, flags=re.DOTALL
    )


def ansi_c(text: str) -> str:
    r"""Return a text with escapes such as `\x72`, `\162` and `\n` replaced by their characters."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(found: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if digits := found[group]:
            number = int(digits, base)
            return chr(number) if number <= 0x10FFFF else ""
    return chr(ord(found[5]) & 0x1F) if found[5] else _NAMED.get(found[6], found[6])


def split_into_words(pieces: Sequence[Piece]) -> list[Word]:
    """Split pieces into words; an empty unquoted expansion is no word."""
    words: list[Word] = []
    text: list[str] = []
    exists = glob = loose = False
    producers: tuple[Command, ...] = ()

    def end() -> None:
        nonlocal text, exists, glob, loose, producers
        if exists:
            words.append(Word("".join(text), glob, not loose, producers))
        text, exists, glob, loose, producers = [], False, False, False, ()

    for number, piece in enumerate(pieces):
        producers += piece.producers
        if not piece.expanded or piece.quoted:
            if number == 0 and piece.quoted and not piece.expanded and piece.text.startswith("~"):
                text.append("./")  # a quoted `~` is no home directory
            text.append(piece.text)
            exists |= bool(piece.text) or not piece.expanded or piece.quoted
            glob |= piece.glob or (not piece.quoted and not _GLOB.isdisjoint(piece.text))
        else:
            for at, field in enumerate(re.split(r"[ \t\n]+", piece.text)):
                if at:
                    end()
                text.append(field)
                exists |= bool(field)
                glob |= piece.glob or not _GLOB.isdisjoint(field)
                loose |= UNKNOWN in field
        if piece.ends:
            end()
    end()
    return words


def as_one(pieces: list[Piece]) -> Word:
    """Join pieces into a single word, as in an assignment."""
    words = split_into_words([replace(piece, quoted=piece.quoted or piece.expanded, ends=False) for piece in pieces])
    return words[0] if words else Word("")


def expand_braces(pieces: list[Piece]) -> list[list[Piece]]:
    """Return the words of `a{b,c}`, the innermost braces first.

    Raises:
        TooMuchError: There are too many words.
    """
    if not any("{" in piece.text for piece in pieces if not piece.quoted and not piece.expanded):
        return [pieces]
    fixed = [piece for piece in pieces if piece.quoted or piece.expanded]
    marks = iter(range(len(fixed)))
    plain_texts = (piece.text.replace("\0", "") for piece in pieces)
    fixes = (piece.quoted or piece.expanded for piece in pieces)
    texts = ["".join(f"\0{next(marks)}\0" if fix else text for fix, text in zip(fixes, plain_texts, strict=True))]
    done: list[str] = []
    while texts:
        text = texts.pop(0)
        found, alternatives = next(filter(itemgetter(1), map(_alternatives, _BRACES.finditer(text))), (None, []))
        if found:
            texts[:0] = [text[: found.start()] + one + text[found.end() :] for one in alternatives]
        else:
            done.append(text)
        if len(texts) + len(done) > _MAX_ALTERNATIVES:
            raise TooMuchError
    parts = (enumerate(text.split("\0")) for text in done)
    return [
        [fixed[int(part)] if at % 2 else Piece(part, quoted=False) for at, part in of if at % 2 or part] for of in parts
    ]


def _alternatives(found: re.Match[str]) -> tuple[re.Match[str], list[str]]:
    """Return the alternatives of `{a,b}`; the ends of a range of numbers; UNKNOWN for a range of letters."""
    if "," in found[1]:
        return found, found[1].split(",")
    ends = _RANGE.fullmatch(found[1])
    return found, [] if not ends else [ends[1], ends[2]] if ends[1].lstrip("-").isdigit() else [UNKNOWN]

"""Words of shell text: quotes, escapes, brace expansion, splitting."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from environments.approvals.bounds import TooMuchError
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
    """True for the value of an expansion, which is split at blanks where it is not quoted."""
    glob: bool = False
    """True if its text is a pattern of file names though it is quoted: the variable of a loop over `/*`."""
    ends: bool = False
    """True if a new word begins behind it, as between the elements of `"${a[@]}"`."""
    fed_by: tuple[Command, ...] = ()


def plain(text: str, *, quoted: bool) -> list[Piece]:
    """Return the pieces of a text without expansions, within double quotes or outside of quotes."""
    if not text:
        return []
    return [Piece(in_quotes(text))] if quoted else unescaped(text)


def unescaped(text: str) -> list[Piece]:
    """Return the pieces of a text that is not quoted."""
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
    r"""Return a text with `\x72`, `\162`, `\n` and the like replaced by the characters that they stand for."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(found: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if digits := found[group]:
            number = int(digits, base)
            return chr(number) if number <= 0x10FFFF else ""
    return chr(ord(found[5]) & 0x1F) if found[5] else _NAMED.get(found[6], found[6])


def split_into_words(pieces: Sequence[Piece]) -> list[Word]:
    """Return the words that pieces become; none for an expansion that is empty."""
    words: list[Word] = []
    text: list[str] = []
    exists = glob = loose = False
    fed_by: tuple[Command, ...] = ()

    def end() -> None:
        nonlocal text, exists, glob, loose, fed_by
        if exists:
            words.append(Word("".join(text), glob, not loose, fed_by))
        text, exists, glob, loose, fed_by = [], False, False, False, ()

    for number, piece in enumerate(pieces):
        fed_by += piece.fed_by
        if not piece.expanded or piece.quoted:
            if number == 0 and piece.quoted and not piece.expanded and piece.text.startswith("~"):
                text.append("./")  # which keeps it from being the home
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
    """Return pieces as one word, as in an assignment."""
    words = split_into_words([replace(piece, quoted=piece.quoted or piece.expanded, ends=False) for piece in pieces])
    return words[0] if words else Word("")


def expand_braces(pieces: list[Piece]) -> list[list[Piece]]:
    """Return the words of `a{b,c}`, the innermost braces first.

    Raises:
        TooMuchError: There are too many.
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
    """Return those of `{a,b}`; the ends alone of a range of numbers, and UNKNOWN for letters, which may be any word."""
    if "," in found[1]:
        return found, found[1].split(",")
    ends = _RANGE.fullmatch(found[1])
    return found, [] if not ends else [ends[1], ends[2]] if ends[1].lstrip("-").isdigit() else [UNKNOWN]

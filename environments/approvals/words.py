"""Words of shell text: quotes, escapes, brace expansion, splitting."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from environments.approvals.bounds import TooMuchError
from environments.approvals.command import UNKNOWN, Command, Word

_MAX_ALTERNATIVES = 256
_GLOB = frozenset("*?[")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|0?([0-7]{1,3})|c(.)|(.))", re.S)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_BRACES = re.compile(r"[{},]|[^{},]+")
_SEQUENCE = re.compile(r"\{(-?\d+|[a-zA-Z])\.\.(-?\d+|[a-zA-Z])(?:\.\.(-?\d+))?\}")


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
    """Return the alternatives of `a{b,c}`; a long sequence such as `{1..1000}` becomes a pattern.

    Raises:
        TooMuchError: There are too many.
    """
    if not any("{" in piece.text for piece in pieces if not piece.quoted and not piece.expanded):
        return [pieces]
    alternatives, _ = _braces(list(_brace_pieces(pieces)), 0, closing=False)
    return alternatives


def _brace_pieces(pieces: Sequence[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        if piece.quoted or piece.expanded:
            yield piece
        else:
            text = _SEQUENCE.sub(_sequence, piece.text)
            yield from (replace(piece, text=found[0]) for found in _BRACES.finditer(text))


def _sequence(found: re.Match[str]) -> str:
    """Return `{first,last}` for numbers, as those between make no other deed; letters may make any word."""
    numeric = found[1].lstrip("-").isdigit() and found[2].lstrip("-").isdigit()
    return f"{{{found[1]},{found[2]}}}" if numeric else UNKNOWN


def _braces(pieces: list[Piece], at: int, *, closing: bool, depth: int = 0) -> tuple[list[list[Piece]], int]:
    """Expand from a place to the end, or `closing` behind the brace that closes; -1 as the place if none does."""
    if depth > 24:
        raise TooMuchError("it is nested too deep to be judged")
    done: list[list[Piece]] = []
    current: list[list[Piece]] = [[]]
    commas = 0
    while at < len(pieces):
        piece = pieces[at]
        sign = "" if piece.quoted or piece.expanded else piece.text
        added = [[piece]]
        if sign == "{":
            inner, end = _braces(pieces, at + 1, closing=True, depth=depth + 1)
            if end < 0:  # it is a plain character, and so are all that are open around it
                inner, end = [list(pieces[at:])], len(pieces)
            added, at = inner, end - 1
        elif sign == "}" and closing:
            whole = [[Piece("{"), *parts, replace(piece, quoted=True)] for parts in current]
            return (done + current if commas else whole), at + 1
        elif sign == "," and closing:
            done += current
            current, added = [[]], [[]]
            commas += 1
        current = [[*left, *right] for left in current for right in added]
        most = 10 * _MAX_ALTERNATIVES + len(pieces)
        if len(current) + len(done) > _MAX_ALTERNATIVES or sum(map(len, current)) > most:
            raise TooMuchError("it unfolds to too much to be judged")
        at += 1
    return (current, at) if not closing else ([], -1)

"""Words of shell text: brace expansion, escapes, splitting; and the text that well-known commands print."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from environments.approvals.command import UNKNOWN, Command, Word

MAX_VALUE = 20_000
"""Characters of a longer value or output are not followed: values made of values grow fast."""
_MAX_ALTERNATIVES = 256
_MAX_SEQUENCE = 64
_GLOB = frozenset("*?[")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|0?([0-7]{1,3})|c(.)|(.))", re.S)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_BRACES = re.compile(r"[{},]|[^{},]+")
_SEQUENCE = re.compile(r"\{(-?\d+|[a-zA-Z])\.\.(-?\d+|[a-zA-Z])(?:\.\.(-?\d+))?\}")
_DIRECTIVE = re.compile(r"%(?:%|[-+ #0-9.*]*[a-zA-Z])")


class TooMuchError(Exception):
    """The text is too long, nested too deep, or unfolds to too much, to be judged."""


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


def ansi_c(text: str) -> str:
    r"""Return a text with `\x72`, `\162`, `\n` and the like replaced by the characters that they stand for."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(found: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if digits := found[group]:
            number = int(digits, base)
            return chr(number) if number <= 0x10FFFF else ""
    return chr(ord(found[5]) & 0x1F) if found[5] else _NAMED.get(found[6], found[6])


def split_into_words(pieces: Sequence[Piece], separators: str = " \t\n") -> list[Word]:
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
            fields = re.split(f"[{re.escape(separators)}]+", piece.text) if separators else [piece.text]
            for at, field in enumerate(fields):
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
    first, last = found[1], found[2]
    numeric = first.lstrip("-").isdigit()
    if numeric != last.lstrip("-").isdigit() or len(first + last) > 20:
        return found[0]
    start, end = (int(first), int(last)) if numeric else (ord(first), ord(last))
    step = abs(int(found[3][:9])) if found[3] else 1
    places = range(start, end + (1 if end >= start else -1), (step or 1) * (1 if end >= start else -1))
    if len(places) > _MAX_SEQUENCE:
        return "*"
    texts = [str(place) if numeric else chr(place) for place in places]
    return "{" + ",".join(texts) + "}" if len(texts) > 1 else texts[0]


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


# The text that a command prints.

_PRINTS = {
    "mktemp": "/tmp/tmp.made\n",  # noqa: S108 - a name of the kind that it makes
    "whoami": "user\n",
    "git rev-parse --show-toplevel": ".\n",
    "dirname sh": ".\n",
    "true": "",
    ":": "",
    "false": "",
    "cd": "",
    "test": "",
    "[": "",
    "[[": "",
    "": "",
}
"""The output of commands, by the whole line or by the program."""


def printed(command: Command) -> str | None:
    """Return the text that a command prints, wherever it goes, where its words tell it; else None."""
    if special := _PRINTING.get(command.name):
        return special(command)
    return _PRINTS.get(command.line, _PRINTS.get(command.name))


def _passed_on(command: Command) -> str | None:
    reads_files = command.name != "tee" and any(not text.startswith("-") for text in command.texts if text != "-")
    return None if reads_files else command.given


def _located(command: Command) -> str | None:
    texts = command.texts
    return texts[-1] + "\n" if texts and texts[0].startswith("-") | (command.name == "which") else None


def _named(command: Command) -> str | None:
    if len(command.args) != 1 or not command.args[0].literal:
        return None
    text = command.texts[0]
    if command.name == "basename":
        return posixpath.basename(text.rstrip("/")) + "\n"
    return (posixpath.dirname(text) or ".") + "\n"


def _echoed(command: Command) -> str | None:
    texts = command.texts
    options = ""
    while texts and re.fullmatch(r"-[neE]+", texts[0]):
        options, texts = options + texts[0], texts[1:]
    text = " ".join(texts)
    if len(text) > MAX_VALUE:
        return None
    text = ansi_c(text)  # sh does so without an option
    return text if "n" in options else text + "\n"


def _formatted(command: Command) -> str | None:
    texts = command.texts
    if texts[:1] == ("-v",):
        texts = texts[2:]
    if texts[:1] == ("--",):
        texts = texts[1:]
    if not texts:
        return None
    form, values = ansi_c(texts[0]), list(texts[1:])
    directives = sum(found != "%%" for found in _DIRECTIVE.findall(form))
    rounds = -(-len(values) // directives) if directives and values else 1
    if len(form) * rounds + sum(map(len, values)) > MAX_VALUE:
        return None
    left = iter(values)
    return "".join(_DIRECTIVE.sub(lambda found: _directed(found[0], left), form) for _ in range(rounds))


def _directed(directive: str, values: Iterator[str]) -> str:
    """Return the next value as a directive prints it. Widths and formats of numbers are left aside."""
    if directive == "%%":
        return "%"
    value = next(values, "")
    return ansi_c(value) if directive[-1] == "b" else value[: 1 if directive[-1] == "c" else None]


_PRINTING: Mapping[str, Callable[[Command], str | None]] = {
    **dict.fromkeys(("cat", "tee", "sponge", "pv"), _passed_on),
    **dict.fromkeys(("which", "command", "type", "whence"), _located),
    **dict.fromkeys(("basename", "dirname"), _named),
    "echo": _echoed,
    "printf": _formatted,
    "pwd": lambda command: (command.directory or ".") + "\n",
}

"""A text file as `patch` edits it: LF text, and what it takes to write everything else back as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_BOM = "\ufeff"
MAX_BYTES = 10_000_000
"""Bytes of a file that `patch` changes, and of what it makes of it; characters of its arguments."""
MAX_LINES = 500_000
"""Lines of such a file: what they cost here does not depend on their length alone."""


class FileSizeError(Exception):
    """A file is too large. The message names the bound, and not the file."""


def is_too_large(text: str) -> bool:
    """Whether an argument of `patch` has more characters or lines than a file that it changes."""
    return len(text) > MAX_BYTES or text.count("\n") > MAX_LINES


def check_size(size: int, lines: int) -> None:
    """Refuse what is too large to be changed here.

    Args:
        size: Bytes that it has, or characters, which are no more.
        lines: Lines that it has.

    Raises:
        FileSizeError: It is too large.
    """
    if size > MAX_BYTES:
        raise FileSizeError(f"more than {MAX_BYTES:,} bytes, which is the most that patch changes")
    if lines > MAX_LINES:
        raise FileSizeError(f"more than {MAX_LINES:,} lines, which is the most that patch changes")


def occurrences(text: str, wanted: str, step: int) -> Iterator[int]:
    """Go through the places where a text has another.

    Args:
        text: The text to go through.
        wanted: What to look for.
        step: How far after a place the next one may be: 1 if they may overlap, `len(wanted)` if not.
    """
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + step)


def is_plain(text: str) -> bool:
    """Return whether a text is found and put into files as its bytes are.

    Carriage returns are a matter of line ends, the byte order mark is one of the file, and surrogates are bytes.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\r" not in text and _BOM not in text


class BinaryFileError(Exception):
    """The file holds NUL bytes, so it is not text."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `text[start:end]` by `new`, all in LF text."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class TextFile:
    """The text of a file with LF line ends, and the line ends and byte order mark it has on disk."""

    text: str
    """Bytes that are not UTF-8 stand in it as surrogates, and are written back as they were."""
    crlf: bytes = b""
    """For each newline of the text, 1 if it is CRLF on disk, and 0 if not."""
    bom: bool = False

    @classmethod
    def from_bytes(cls, data: bytes) -> TextFile:
        """Take a file apart.

        Raises:
            BinaryFileError: The file holds NUL bytes.
            FileSizeError: It is too large.
        """
        check_size(len(data), newlines := data.count(b"\n"))
        if b"\0" in data:
            raise BinaryFileError
        crlf = bytes(newlines)
        if b"\r\n" in data:
            crlf = bytes(len(end.group()) - 1 for end in re.finditer(rb"\r?\n", data))
        raw = data.decode("utf-8", "surrogateescape")
        return cls(raw.removeprefix(_BOM).replace("\r\n", "\n"), crlf, raw.startswith(_BOM))

    def to_bytes(self) -> bytes:
        """Return the file as it stands on disk."""
        text = self.text
        if 0 not in self.crlf:
            text = text.replace("\n", "\r\n")
        elif 1 in self.crlf:
            ends = ["\r\n" if crlf else "\n" for crlf in self.crlf] + [""]
            text = "".join(line + end for line, end in zip(text.split("\n"), ends, strict=True))
        return ((_BOM if self.bom else "") + text).encode("utf-8", "surrogateescape")

    def replaced(self, old: str, new: str) -> TextFile:
        """Return the file with every occurrence of a text replaced. Raises FileSizeError if it became too large."""
        count = self.text.count(old)
        self._check_growth(count * (len(new) - len(old)), count * (new.count("\n") - old.count("\n")))
        if "\n" in old + new and 0 in self.crlf and 1 in self.crlf:
            return self.edited([Edit(at, at + len(old), new) for at in occurrences(self.text, old, len(old))])
        text = self.text.replace(old, new)
        newlines = text.count("\n")
        return TextFile(
            text, self.crlf if newlines == len(self.crlf) else (self.crlf[:1] or b"\0") * newlines, self.bom
        )

    def edited(self, edits: Sequence[Edit]) -> TextFile:
        """Return the file with edits made, which are in order and do not overlap.

        Line ends that are not part of an edit stay. New ones are like the ones they replace, or else like the
        one before. Raises FileSizeError if it became too large, before it is made.
        """
        self._check_growth(
            sum(len(edit.new) - (edit.end - edit.start) for edit in edits),
            sum(edit.new.count("\n") - self.text.count("\n", edit.start, edit.end) for edit in edits),
        )
        pieces: list[str] = []
        crlf = bytearray()
        position = newlines = 0
        for edit in edits:
            kept = self.text[position : edit.start]
            first = newlines + kept.count("\n")
            newlines_after = first + self.text.count("\n", edit.start, edit.end)
            pieces += [kept, edit.new]
            crlf += self.crlf[newlines:first]
            crlf += bytes([self._line_end_at(first, newlines_after)]) * edit.new.count("\n")
            position, newlines = edit.end, newlines_after
        pieces.append(self.text[position:])
        crlf += self.crlf[newlines:]
        return TextFile("".join(pieces), bytes(crlf), self.bom)

    def _check_growth(self, characters: int, lines: int) -> None:
        check_size(len(self.text) + characters, len(self.crlf) + lines)

    def _line_end_at(self, first: int, after: int) -> int:
        if not self.crlf:
            return 0
        if after > first:
            return self.crlf[first]
        return self.crlf[max(0, first - 1)]

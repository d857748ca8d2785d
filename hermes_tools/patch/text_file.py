"""A text file as `patch` edits it: LF text, with the facts to restore line ends and other bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_BOM = "\ufeff"
MAX_BYTES = 10_000_000
"""Limit in bytes for a file before and after a change; in characters for arguments."""
MAX_LINES = 500_000
"""Limit in lines; the cost here does not depend on the length alone."""


class FileSizeError(Exception):
    """A file is too large. The message names the limit, and not the file."""


def is_too_large(text: str) -> bool:
    """Return True if an argument of `patch` has more characters or lines than a file may have."""
    return len(text) > MAX_BYTES or text.count("\n") > MAX_LINES


def check_size(size: int, lines: int) -> None:
    """Check the size of a text.

    Args:
        size: Bytes, or characters, which are never more.
        lines: Lines.

    Raises:
        FileSizeError: The text is too large.
    """
    if size > MAX_BYTES:
        raise FileSizeError(f"more than {MAX_BYTES:,} bytes, the limit of patch")
    if lines > MAX_LINES:
        raise FileSizeError(f"more than {MAX_LINES:,} lines, the limit of patch")


def occurrences(text: str, wanted: str, step: int) -> Iterator[int]:
    """Yield the positions of a text in another.

    Args:
        text: The text to search.
        wanted: The text to find.
        step: Distance to the next search: 1 for overlapping occurrences, `len(wanted)` for others.
    """
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + step)


def is_plain(text: str) -> bool:
    """Return True if a text's characters correspond to the bytes in files.

    Carriage returns depend on line ends, the byte order mark belongs to the file, and surrogates are bytes.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\r" not in text and _BOM not in text


class BinaryFileError(Exception):
    """The file has NUL bytes and is not text."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of `text[start:end]` by `new`, all in LF text."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's text with LF line ends, and the line ends and byte order mark on disk."""

    text: str
    """Bytes that are not UTF-8 are surrogates, and are written back unchanged."""
    crlf: bytes = b""
    """For each newline of the text, 1 for CRLF on disk, else 0."""
    bom: bool = False

    @classmethod
    def from_bytes(cls, data: bytes) -> TextFile:
        """Parse a file's bytes.

        Raises:
            BinaryFileError: The file has NUL bytes.
            FileSizeError: The file is too large.
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
        """Return the bytes for the disk."""
        text = self.text
        if 0 not in self.crlf:
            text = text.replace("\n", "\r\n")
        elif 1 in self.crlf:
            ends = ["\r\n" if crlf else "\n" for crlf in self.crlf] + [""]
            text = "".join(line + end for line, end in zip(text.split("\n"), ends, strict=True))
        return ((_BOM if self.bom else "") + text).encode("utf-8", "surrogateescape")

    def replaced(self, old: str, new: str) -> TextFile:
        """Return a copy with every occurrence of a text replaced. Raises FileSizeError if too large."""
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
        """Return a copy with edits, given in order and without overlaps.

        Line ends outside of edits stay. A new line end is like the replaced line end, or else like the line end before.
        Raises FileSizeError before making a copy that would be too large.
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

"""A text file as `patch` edits it: LF text, and what it takes to write everything else back as it was."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_BOM = "\ufeff"


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
    crlf: tuple[bool, ...] = ()
    """For each newline of the text, whether it is CRLF on disk."""
    bom: bool = False

    @classmethod
    def from_bytes(cls, data: bytes) -> TextFile:
        """Take a file apart.

        Raises:
            BinaryFileError: The file holds NUL bytes.
        """
        if b"\0" in data:
            raise BinaryFileError
        raw = data.decode("utf-8", "surrogateescape")
        crlf = tuple(len(end) == 2 for end in re.findall(r"\r?\n", raw))
        return cls(raw.removeprefix(_BOM).replace("\r\n", "\n"), crlf, raw.startswith(_BOM))

    def to_bytes(self) -> bytes:
        """Return the file as it stands on disk."""
        lines = self.text.split("\n")
        ends = ["\r\n" if crlf else "\n" for crlf in self.crlf] + [""]
        text = "".join(line + end for line, end in zip(lines, ends, strict=True))
        return ((_BOM if self.bom else "") + text).encode("utf-8", "surrogateescape")

    def edited(self, edits: Sequence[Edit]) -> TextFile:
        """Return the file with edits made, which are in order and do not overlap.

        Line ends that are not part of an edit stay. New ones are like the ones they replace, or else like the
        one before.
        """
        pieces: list[str] = []
        crlf: list[bool] = []
        position = newlines = 0
        for edit in edits:
            kept = self.text[position : edit.start]
            first = newlines + kept.count("\n")
            newlines_after = first + self.text.count("\n", edit.start, edit.end)
            pieces += [kept, edit.new]
            crlf += self.crlf[newlines:first]
            crlf += [self._line_end_at(first, newlines_after)] * edit.new.count("\n")
            position, newlines = edit.end, newlines_after
        pieces.append(self.text[position:])
        crlf += self.crlf[newlines:]
        return TextFile("".join(pieces), tuple(crlf), self.bom)

    def _line_end_at(self, first: int, after: int) -> bool:
        if not self.crlf:
            return False
        if after > first:
            return self.crlf[first]
        return self.crlf[max(0, first - 1)]

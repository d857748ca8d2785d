"""The V4A patch format: a parser from text to operations on files.

*** Begin Patch
*** Update File: path
*** Move to: new path           (optional)
@@ a line above the change      (optional; several narrow down the place step by step)
 an unchanged line
-a removed line
+an added line
*** End of File                 (optional: the lines above are the file's last)
*** Add File: path
+each line of the new file
*** Delete File: path
*** Move File: path -> new path
*** End Patch
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hermes_tools.files.lines import quoted
from hermes_tools.patch.text_file import MAX_BYTES, MAX_LINES, is_too_large

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_SECTION = re.compile(r"\*\*\* (Add|Update|Delete|Move) File:(.*)")
_MOVE_TO = "*** Move to:"
_UNIFIED_HINT = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)")


class PatchFormatError(Exception):
    """The patch text is not V4A. The message names the patch's line."""


@dataclass(frozen=True, slots=True)
class HunkLine:
    """A line of a hunk."""

    kind: Literal[" ", "-", "+"]
    text: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """A change within a file."""

    number: int
    """Number among the hunks of the file, from 1."""
    hints: tuple[str, ...]
    lines: tuple[HunkLine, ...]
    at_end: bool

    @property
    def old(self) -> list[str]:
        """Lines of the file before the change."""
        return [line.text for line in self.lines if line.kind != "+"]


@dataclass(frozen=True, slots=True)
class FileOperation:
    """A patch's operation on a file."""

    kind: Literal["add", "update", "delete"]
    path: str
    move_to: str | None = None
    hunks: tuple[Hunk, ...] = ()
    content: str = ""


def parse_v4a(patch: str) -> list[FileOperation]:
    """Parse a patch in the V4A format, in time linear to its length.

    Raises:
        PatchFormatError: The text is no patch, changes nothing, or is too long.
    """
    if is_too_large(patch):
        raise PatchFormatError(f"a patch has at most {MAX_BYTES:,} characters and {MAX_LINES:,} lines")
    try:
        patch.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        number = patch.count("\n", 0, error.start) + 1
        raise PatchFormatError(f"line {number} of the patch has a lone surrogate, which no file can contain") from None
    lines = patch.replace("\r\n", "\n").strip("\n").split("\n")
    if lines[0].strip() != _BEGIN:
        raise PatchFormatError(f"the patch must begin with the line {_BEGIN!r}, not {quoted(lines[0])}")
    if lines[-1].strip() != _END:
        raise PatchFormatError(f"the patch must end with the line {_END!r}, not {quoted(lines[-1])}")
    operations = []
    start = 1
    while start < len(lines) - 1:
        if not lines[start].strip():
            start += 1
            continue
        end = next((at for at in range(start + 1, len(lines) - 1) if _SECTION.fullmatch(lines[at])), len(lines) - 1)
        operations.append(_parse_section(lines[start:end], start + 1))
        start = end
    if not operations:
        raise PatchFormatError("the patch holds no '*** Update File:', '*** Add File:' or other section")
    return operations


def _parse_section(lines: list[str], number: int) -> FileOperation:
    header = _SECTION.fullmatch(lines[0])
    if header is None:
        raise PatchFormatError(f"line {number} of the patch must start a file's section, not {quoted(lines[0])}")
    kind, path = header[1], header[2].strip(" ")
    body = lines[1:]
    if not path:
        raise PatchFormatError(f"line {number} of the patch names no file")
    if kind == "Add":
        return _parse_added(path, body, number + 1)
    if kind == "Update":
        return _parse_update(path, body, number + 1)
    if any(line.strip() for line in body):
        raise PatchFormatError(f"line {number + 1} of the patch: {kind} File takes no lines")
    if kind == "Delete":
        return FileOperation("delete", path)
    source, arrow, destination = path.partition(" -> ")
    if not arrow:
        raise PatchFormatError(f"line {number} of the patch must read '*** Move File: path -> new path'")
    return FileOperation("update", source.strip(), move_to=destination.strip())


def _parse_added(path: str, body: list[str], number: int) -> FileOperation:
    while body and not body[-1].strip():
        body.pop()
    for at, line in enumerate(body, number):
        if not line.startswith("+"):
            raise PatchFormatError(f"line {at} of the patch must start with '+' to be in the new file {path}")
    return FileOperation("add", path, content="".join(f"{line[1:]}\n" for line in body))


def _parse_update(path: str, body: list[str], number: int) -> FileOperation:
    move_to = None
    if body and body[0].startswith(_MOVE_TO):
        move_to = body[0].removeprefix(_MOVE_TO).strip()
        body, number = body[1:], number + 1
    hunks: list[Hunk] = []
    hints: list[str] = []
    lines: list[HunkLine] = []
    at_end = False

    def finish() -> None:
        while lines and lines[-1] == HunkLine(" ", "") and not at_end:
            # An empty line between two hunks is only layout.
            lines.pop()
        if lines:
            hunks.append(Hunk(len(hunks) + 1, tuple(hints), tuple(lines), at_end))
            hints.clear()
            lines.clear()

    for at, line in enumerate(body, number):
        if line.startswith("@@"):
            finish()
            at_end = False
            hints += _hint(line)
        elif line.rstrip() == _END_OF_FILE:
            at_end = True
            finish()
            at_end = False
        else:
            lines.append(_parse_line(line, at))
    finish()
    if not hunks and not move_to:
        raise PatchFormatError(f"the update of {path} changes nothing")
    for hunk in hunks:
        if all(line.kind == " " for line in hunk.lines):
            raise PatchFormatError(f"hunk {hunk.number} of {path} has neither '-' nor '+' lines")
    return FileOperation("update", path, move_to, tuple(hunks))


def _hint(line: str) -> list[str]:
    text = line[2:].strip()
    if unified := _UNIFIED_HINT.fullmatch(text):
        text = unified.group(1)
    text = text.removesuffix("@@").strip()
    return [text] if text else []


def _parse_line(line: str, number: int) -> HunkLine:
    if not line:
        # Editors and models drop the single space of an empty context line.
        return HunkLine(" ", "")
    if line[0] == " ":
        return HunkLine(" ", line[1:])
    if line[0] == "-":
        return HunkLine("-", line[1:])
    if line[0] == "+":
        return HunkLine("+", line[1:])
    raise PatchFormatError(f"line {number} of the patch must start with ' ', '-', '+' or '@@', not {quoted(line)}")

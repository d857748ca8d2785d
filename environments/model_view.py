"""Text of a target, prepared for a model: without terminal controls and without secrets.

Recognised controls: CSI sequences (colours, cursor, erasing), control strings (OSC with titles, links and the
clipboard; DCS, APC, PM, SOS), other escape sequences, and the control characters of C0 and C1. A control string ends at
its terminator, at an escape, or at the end of its line. An unterminated string therefore hides one line at most.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from environments.output import CapturedText
from environments.redaction import RedactedPieces, Redactor

# The classes of a sequence are disjoint, so that matching takes linear time. All alternatives begin with the same
# class, for a fast search.
_CONTROL = re.compile(
    r"[\x00-\x07\x0b-\x1f\x7f-\x9f]"
    r"(?:(?:(?<=\x1b)\[|(?<=\x9b))[0-?]*[ -/]*[@-~]?"
    r"|(?P<string>(?<=\x1b)[\]PX^_]|(?<=[\x90\x98\x9d-\x9f]))[^\x07\x18\x1a\x1b\x9c\n]*[\x07\x18\x1a\x9c]?"
    r"|(?<=\x1b)[ -/]*[0-~]?"
    r"|(?<=\r)\r*\n?"
    r"|)"
)
_STRING_ENDS = "\x07\x18\x1a\x9c"
_STRING = "\x9d"
"""Placeholder for the beginning of an unterminated control string."""
_COLOUR = re.compile(r"(?:\x1b\[|\x9b)[0-9;:]*m")
_RESET = "\x1b[0m"
LONGEST = 256
"""Maximum characters of an incomplete sequence; real sequences are shorter."""


def plain(text: str) -> str:
    """Return text without controls, with a line feed for each line break.

    Of a line overwritten after a carriage return, as by a progress bar, the last version stays. A character overstruck
    after a backspace, as in old manual pages, is replaced.
    """
    text = _CONTROL.sub(_line_breaks_alone, text)
    if "\r" not in text and "\b" not in text:
        return text
    return "\n".join(_as_last_seen(line) if "\r" in line or "\b" in line else line for line in text.split("\n"))


def _line_breaks_alone(found: re.Match[str]) -> str:
    control = found[0]
    if control[0] != "\r":
        return ""
    return "\n" if control[-1] == "\n" else "\r"


def _as_last_seen(line: str) -> str:
    shown = next((part for part in reversed(line.split("\r")) if part), "")
    return _overstruck(shown) if "\b" in shown else shown


def _overstruck(line: str) -> str:
    """Return a line as displayed after backspaces, with overstruck characters replaced."""
    shown: list[str] = []
    place = 0
    for character in line:
        if character == "\b":
            place = max(0, place - 1)
            continue
        shown[place : place + 1] = [character]
        place += 1
    return "".join(shown)


class _Pieces:
    """Removes controls from text that arrives in pieces. A sequence cut by a piece is completed by the next piece."""

    def __init__(self, instead: Callable[[str], str]) -> None:
        self._instead = instead
        self._pending = ""

    def feed(self, text: str, final: bool = False) -> str:
        """Return the text that is complete so far.

        Args:
            text: The next piece.
            final: True for the last piece.
        """
        text, self._pending = self._pending + text, ""
        size = len(text)

        def replaced(found: re.Match[str]) -> str:
            control = found[0]
            if found.end() == size and not final and (pending := _unfinished(control, found["string"])):
                self._pending = pending
                return ""
            return self._instead(control)

        return _CONTROL.sub(replaced, text)


def _unfinished(control: str, string: str | None) -> str:
    """Return the incomplete control at the end of a piece, to prepend to the next piece."""
    if string is not None:
        return "" if control[-1] in _STRING_ENDS else _STRING
    if control[-1] == "\r":
        return control if len(control) < LONGEST else ""
    begun = control == "\x1b" or (control[0] in "\x1b\x9b" and (control in ("\x1b[", "\x9b") or control[-1] < "@"))
    if control[0] == "\x1b" and control[1:2] != "[" and control[-1:] >= "0":
        return ""
    return control if begun and len(control) < LONGEST else ""


class PlainText(_Pieces):
    """Text for a model, shown as it arrives. Like `plain`, but shown text is final.

    A carriage return therefore begins a new line, and backspaces reach back to the beginning of their piece.
    """

    def __init__(self) -> None:
        super().__init__(lambda control: "\n" if control[0] == "\r" else "")

    def feed(self, text: str, final: bool = False) -> str:
        # Backspaces are resolved within the piece.
        shown = super().feed(text, final)
        if "\b" not in shown:
            return shown
        return "\n".join(map(_overstruck, shown.split("\n")))


class HarmlessText(_Pieces):
    """Text for a person's terminal: colours stay, all other sequences are removed.

    Single control characters are written as `^G`. Line breaks, tabs and carriage returns stay.
    """

    def __init__(self) -> None:
        super().__init__(self._kept)
        self._coloured = False

    def _kept(self, control: str) -> str:
        if control[0] == "\r":
            return control
        if _COLOUR.fullmatch(control):
            self._coloured = control not in (_RESET, "\x1b[m")
            return control
        return f"^{chr(ord(control) ^ 0x40)}" if len(control) == 1 and control < "\x80" and control != "\x1b" else ""

    def feed(self, text: str, final: bool = False) -> str:
        # The last piece resets the colours.
        shown = super().feed(text, final).replace("\b", "^H")
        return f"{shown}{_RESET}" if final and self._coloured else shown


def harmless(text: str) -> str:
    """Return a whole text as shown by `HarmlessText`."""
    return HarmlessText().feed(text, final=True)


Value = TypeVar("Value")


class ModelView:
    """Prepares text for a model, by the settings `strip_ansi` and `redact_secrets`.

    Args:
        redactor: Removes the secrets.
        strip: True to remove terminal controls too.
    """

    def __init__(self, redactor: Redactor, strip: bool) -> None:
        self.redactor = redactor
        self.strip = strip

    def output(self, text: str) -> str:
        """Return the output of a command for a model."""
        return self.redactor.text(plain(text) if self.strip else text)

    def captured(self, captured: CapturedText) -> CapturedText:
        """Return a captured output for a model. Secrets cut by the omission are removed too."""
        if not captured.omitted_bytes:
            text = self.output(captured.text)
            return CapturedText(text, 0, len(text))
        head = self.part(captured.text[: captured.omitted_at], cut_behind=True)
        tail = self.part(captured.text[captured.omitted_at :], cut_before=True)
        return CapturedText(head + tail, captured.omitted_bytes, len(head))

    def part(self, text: str, *, cut_before: bool = False, cut_behind: bool = False) -> str:
        """Return a part of an output for a model. Secrets cut at an end are removed too.

        Args:
            text: The part.
            cut_before: True if text before the part was omitted.
            cut_behind: True if text after the part was omitted.
        """
        return self.redactor.text(plain(text) if self.strip else text, cut_before=cut_before, cut_behind=cut_behind)

    def pieces(self) -> ModelPieces:
        """Return a view for output that arrives in pieces."""
        return ModelPieces(self)

    def value(self, value: Value) -> Value:
        """Return the result of a tool without secrets: text, also in lists, tuples and mappings."""
        return self._redacted(value)  # type: ignore[return-value]  # same type

    def _redacted(self, value: object) -> object:
        if isinstance(value, str):
            return self.redactor.text(value)
        if isinstance(value, dict):
            return {self._redacted(key): self._redacted(item) for key, item in value.items()}
        if type(value) is list:
            return [self._redacted(item) for item in value]
        if type(value) is tuple:
            return tuple(self._redacted(item) for item in value)
        return value

    def redact_error(self, error: BaseException) -> None:
        """Remove secrets and controls from an error's message, output and causes."""
        seen: set[int] = set()
        found: BaseException | None = error
        while found and id(found) not in seen:
            seen.add(id(found))
            found.args = tuple(self.output(said) if isinstance(said, str) else said for said in found.args)
            output = getattr(found, "output", None)
            if isinstance(output, str) and output:
                found.output = self.output(output)  # type: ignore[attr-defined]
            found = found.__cause__ or found.__context__


class ModelPieces:
    """A model view for output that arrives in pieces."""

    def __init__(self, view: ModelView) -> None:
        self._plain = PlainText() if view.strip else None
        self._redacted = RedactedPieces(view.redactor)

    def feed(self, text: str, final: bool = False) -> str:
        """Return the text that is complete so far.

        Args:
            text: The next piece.
            final: True for the last piece.
        """
        if self._plain:
            text = self._plain.feed(text, final)
        return self._redacted.feed(text, final)

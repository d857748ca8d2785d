"""What a model gets to see of text that comes from a target: without terminal controls and without secrets.

What is known as a control: CSI sequences (colours, cursor, erasing), control strings (OSC with titles, links and the
clipboard; DCS, APC, PM, SOS), other escape sequences, and the control characters of C0 and C1. A control string ends
where it says so, at an escape, and at the latest at the end of its line: one that nobody ends hides no more than that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from environments.output import CapturedText
from environments.redaction import RedactedPieces, Redactor

# The classes of each sequence have nothing in common, so that no text is gone over twice. All begin with one class, as
# that is what is searched for quickly.
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
"""Stands for the beginning of a control string that has not come to its end."""
_COLOUR = re.compile(r"(?:\x1b\[|\x9b)[0-9;:]*m")
_RESET = "\x1b[0m"
LONGEST = 256
"""Characters of a sequence that is waited for; no real one is as long."""


def plain(text: str) -> str:
    """Return text as a model gets it: without controls, with a line feed for each line break.

    Of a line that was written over from its beginning (a carriage return, as progress bars use it) what was written
    last stays; what was written over a character (backspaces, as in old manual pages) takes its place.
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
    """Return a line as it looks when a backspace moves back, and what follows replaces what is there."""
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
    """Takes controls out of text that comes in pieces. A sequence that a piece cuts through goes with the next one."""

    def __init__(self, instead: Callable[[str], str]) -> None:
        self._instead = instead
        self._pending = ""

    def feed(self, text: str, final: bool = False) -> str:
        """Return what can be shown of all that has come.

        Args:
            text: The next piece.
            final: Whether it is the last one.
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
    """Return what to put in front of the next piece if a control at the end of one may go on there."""
    if string is not None:
        return "" if control[-1] in _STRING_ENDS else _STRING
    if control[-1] == "\r":
        return control if len(control) < LONGEST else ""
    begun = control == "\x1b" or (control[0] in "\x1b\x9b" and (control in ("\x1b[", "\x9b") or control[-1] < "@"))
    if control[0] == "\x1b" and control[1:2] != "[" and control[-1:] >= "0":
        return ""
    return control if begun and len(control) < LONGEST else ""


class PlainText(_Pieces):
    """Text for a model that is shown as it comes: as by `plain`, but what was shown cannot be taken back.

    A carriage return so begins a new line, and backspaces reach no further than their piece.
    """

    def __init__(self) -> None:
        super().__init__(lambda control: "\n" if control[0] == "\r" else "")

    def feed(self, text: str, final: bool = False) -> str:
        """Return what can be shown, see `_Pieces`."""
        shown = super().feed(text, final)
        if "\b" not in shown:
            return shown
        return "\n".join(map(_overstruck, shown.split("\n")))


class HarmlessText(_Pieces):
    """Text for a person's terminal, in which colours stay and nothing else can do anything.

    Other sequences are left out, and single control characters are written as `^G`. Line breaks, tabulators and
    carriage returns stay.
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
        """Return what can be shown, see `_Pieces`. At the end colours are as they were."""
        shown = super().feed(text, final).replace("\b", "^H")
        return f"{shown}{_RESET}" if final and self._coloured else shown


def harmless(text: str) -> str:
    """Return a whole text as `HarmlessText` shows it."""
    return HarmlessText().feed(text, final=True)


Value = TypeVar("Value")


class ModelView:
    """Makes text fit for a model, as the settings `strip_ansi` and `redact_secrets` say.

    Args:
        redactor: Takes out the secrets.
        strip: Whether terminal controls are taken out too.
    """

    def __init__(self, redactor: Redactor, strip: bool) -> None:
        self.redactor = redactor
        self.strip = strip

    def output(self, text: str) -> str:
        """Return the output of a command."""
        return self.redactor.text(plain(text) if self.strip else text)

    def captured(self, captured: CapturedText) -> CapturedText:
        """Return an output of which the middle may be missing. A secret that this cuts through is taken out too."""
        if not captured.omitted_bytes:
            text = self.output(captured.text)
            return CapturedText(text, 0, len(text))
        head = self.part(captured.text[: captured.omitted_at], cut_behind=True)
        tail = self.part(captured.text[captured.omitted_at :], cut_before=True)
        return CapturedText(head + tail, captured.omitted_bytes, len(head))

    def part(self, text: str, *, cut_before: bool = False, cut_behind: bool = False) -> str:
        """Return a part of an output. A secret that is cut through at one of its ends is taken out too.

        Args:
            text: The part.
            cut_before: Whether something in front of it was left out.
            cut_behind: The same of its end.
        """
        return self.redactor.text(plain(text) if self.strip else text, cut_before=cut_before, cut_behind=cut_behind)

    def pieces(self) -> ModelPieces:
        """Return what does the same to an output that is shown as it comes."""
        return ModelPieces(self)

    def value(self, value: Value) -> Value:
        """Return what a tool returned without secrets: text, and text in lists, tuples and mappings."""
        return self._redacted(value)  # type: ignore[return-value]  # of the same kind

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

    def hide_in(self, error: BaseException) -> None:
        """Make fit for a model what an error says, the output that it holds, and the errors it came from."""
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
    """An output as it comes, made fit for a model."""

    def __init__(self, view: ModelView) -> None:
        self._plain = PlainText() if view.strip else None
        self._redacted = RedactedPieces(view.redactor)

    def feed(self, text: str, final: bool = False) -> str:
        """Return what can be shown of all that has come.

        Args:
            text: The next piece.
            final: Whether it is the last one.
        """
        if self._plain:
            text = self._plain.feed(text, final)
        return self._redacted.feed(text, final)

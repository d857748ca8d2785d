"""What a model gets to see of text that comes from a target: without terminal controls and without secrets."""

from __future__ import annotations

from typing import TypeVar

from environments.capture import CapturedText
from environments.controls import PlainText, plain
from environments.redaction import RedactedPieces, Redactor

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

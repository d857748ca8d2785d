"""Output of commands for a model, with redaction: head and tail, and live for a watching caller."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar

from environments.cancellation import holding
from environments.model_view import ModelView
from environments.output import CapturedText, TextCallback

MAX_BYTES = 50_000
"""The limit for the output in one result."""
_NOTICE_BYTES = 100
_MARGIN = 4
"""Redaction shortens an output, so this many times the limit is redacted before the final cut."""

_watcher: ContextVar[TextCallback | None] = ContextVar("hermes_output_watcher", default=None)


def for_model(view: ModelView, output: CapturedText) -> str:
    """Return an output without secrets and terminal controls, cut in the middle to 50 KB.

    The cut comes after the redaction, so no half of a secret is left.

    Args:
        view: Removes secrets and terminal controls.
        output: The captured output.
    """
    return _cut(view.captured(_cut(output, _MARGIN * MAX_BYTES)), MAX_BYTES - _NOTICE_BYTES).with_count()


def cut_for_model(text: str) -> str:
    """Cut a text without secrets in the middle to 50 KB."""
    return _cut(CapturedText(text, 0, len(text)), MAX_BYTES - _NOTICE_BYTES).with_count()


def _cut(output: CapturedText, limit: int) -> CapturedText:
    """Cut the middle out to at most `limit` bytes of UTF-8."""
    if 4 * len(output.text) <= limit:
        return output
    data = output.text.encode("utf-8", "replace")
    if len(data) <= limit:
        return output
    place = len(output.text[: output.omitted_at].encode("utf-8", "replace")) if output.omitted_bytes else len(data) // 2
    tail_size = len(data) - place
    first = data[: min(place, max(limit // 2, limit - tail_size))]
    last = data[max(place, len(data) - (limit - len(first))) :]
    # A character split by the cut is left out.
    head, tail = first.decode("utf-8", "ignore"), last.decode("utf-8", "ignore")
    kept = len(head.encode()) + len(tail.encode())
    return CapturedText(head + tail, output.omitted_bytes + len(data) - kept, len(head))


def watching_output(on_output: TextCallback | None) -> AbstractContextManager[None]:
    """Pass the output of `terminal`'s foreground commands to a function while the block runs.

    Args:
        on_output: Called in the current thread with each piece, without terminal controls and the values of secrets. An
            exception ends the command. None removes an outer watcher.
    """
    return holding(_watcher, on_output)


@contextlib.contextmanager
def shown_live(view: ModelView) -> Iterator[TextCallback | None]:
    """Yield the `on_output` for `execute` in the block: None without a watcher.

    Args:
        view: Removes secrets and terminal controls.
    """
    watcher = _watcher.get()
    if watcher is None:
        yield None
        return
    pieces = view.pieces()

    def show(text: str, final: bool = False) -> None:
        if shown := pieces.feed(text, final):
            watcher(shown)

    yield show
    show("", final=True)

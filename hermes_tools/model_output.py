"""How much of an output a model gets: its head and its tail, with a word on what is missing."""

from __future__ import annotations

from environments.model_view import ModelView
from environments.output import CapturedText

MOST_BYTES = 50_000
"""What one result holds of an output."""
_NOTICE_BYTES = 100
_MARGIN = 4
"""How many times as much is gone over for secrets and controls, as taking those out makes it shorter."""


def for_model(view: ModelView, output: CapturedText) -> str:
    """Return an output without secrets and terminal controls, cut in its middle to 50 KB.

    The cut comes last, so that it leaves no half of a secret.

    Args:
        view: Takes them out.
        output: What was kept of the output.
    """
    return with_notice(_cut(view.captured(_cut(output, _MARGIN * MOST_BYTES)), MOST_BYTES - _NOTICE_BYTES))


def cut_for_model(text: str) -> str:
    """Return a text that is fit for a model already, cut in its middle to 50 KB."""
    return with_notice(_cut(CapturedText(text, 0, len(text)), MOST_BYTES - _NOTICE_BYTES))


def with_notice(output: CapturedText) -> str:
    """Return an output with a line that says how many bytes of its middle are missing, if any are."""
    if not output.omitted_bytes:
        return output.text
    head, tail = output.text[: output.omitted_at], output.text[output.omitted_at :]
    return f"{head}\n[{output.omitted_bytes} bytes of output omitted]\n{tail}"


def _cut(output: CapturedText, limit: int) -> CapturedText:
    """Leave out more of the middle, until no more than `limit` bytes of UTF-8 are left."""
    if 4 * len(output.text) <= limit:
        return output
    data = output.text.encode("utf-8", "replace")
    if len(data) <= limit:
        return output
    place = len(output.text[: output.omitted_at].encode("utf-8", "replace")) if output.omitted_bytes else len(data) // 2
    tail_size = len(data) - place
    first = data[: min(place, max(limit // 2, limit - tail_size))]
    last = data[max(place, len(data) - (limit - len(first))) :]
    # A character that the cut went through is left out.
    head, tail = first.decode("utf-8", "ignore"), last.decode("utf-8", "ignore")
    kept = len(head.encode()) + len(tail.encode())
    return CapturedText(head + tail, output.omitted_bytes + len(data) - kept, len(head))

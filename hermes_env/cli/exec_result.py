"""What `hermes-env exec --json` prints."""

from __future__ import annotations

from environments.output import BoundedCapture, Channel
from hermes_env.cli.errors import JsonObject, status_of_error
from hermes_env.cli.streamed_command import Ending


class CapturedOutput:
    """Keeps what a command prints: all of it, or its head and its tail. See `OutputSink`.

    Args:
        limit: Bytes to keep.
    """

    separate = False

    def __init__(self, limit: int) -> None:
        self._capture = BoundedCapture(limit)
        self._frozen = False

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes."""
        if not self._frozen:
            self._capture.add(data)

    def freeze(self) -> None:
        """Ignore the rest."""
        self._frozen = True

    def result(self, ending: Ending, seconds: float) -> JsonObject:
        """Return what came of the command, ready for JSON. What was kept is given up.

        Args:
            ending: How it ended.
            seconds: How long all of it took.
        """
        kept = self._capture.text()
        return {
            "status": ending.status,
            "output": kept.with_notice(f"[{kept.omitted_bytes} bytes are left out]"),
            "exit_code": ending.exit_code,
            "timed_out": ending.timed_out,
            "interrupted": ending.interrupted,
            "duration_seconds": seconds,
            "omitted_bytes": kept.omitted_bytes,
            "error": ending.note,
        }


def failed_command(error: Exception) -> JsonObject:
    """Return the same of a command that did not run to its end because of an error of ours."""
    status = status_of_error(error)
    return {
        "status": status,
        "output": getattr(error, "output", ""),
        "exit_code": None,
        "timed_out": status == "timeout",
        "interrupted": status == "interrupted",
        "duration_seconds": 0.0,
        "omitted_bytes": 0,
        "error": str(error),
    }

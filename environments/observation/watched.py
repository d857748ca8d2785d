"""An environment that is looked at: who looks on, and what is told of its commands, processes, starts and files."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping

from environments.cancellation import current_scope
from environments.observation.observation import UNOBSERVED, Facts, Kind, Observation, Observer, Redacts, Status
from environments.observation.seam import observed
from environments.options import Command
from environments.result import CommandResult


class Watched:
    """What those who look at one environment are told. It holds nothing of the environment.

    Args:
        backend: The backend's name.
        task_id: What the environment is for.
        record: The file of its record, if it has one.
        tells_text: Whether OpenTelemetry gets the text of commands and scripts.
        redactor: Returns what takes out the secrets that are known now, and those among some variables.

    Raises:
        SettingsError: The record cannot be written.
    """

    def __init__(
        self,
        backend: str,
        task_id: str,
        record: str | None,
        tells_text: bool,
        redactor: Callable[[Mapping[str, str]], Redacts],
    ) -> None:
        self.backend = backend
        self.task_id = task_id
        self.target: tuple[str, str] | None = None
        """What kind of thing the target is and what its engine knows it by, as in `Target`; a start says it."""
        self.tells_text = tells_text
        self.redactor = redactor
        self._observers = (_recorder(record),) if record else ()

    def observed(
        self, kind: Kind, name: str, facts: Callable[[], Facts], record: str | os.PathLike[str] | None = None
    ) -> Observation:
        """Return what tells of one thing that is about to begin here, see `seam.observed`.

        Args:
            kind: What kind of thing it is.
            name: What people call it.
            facts: Tells what is known of it.
            record: One more file to record it to, with all that is done for it.

        Raises:
            SettingsError: That cannot be written.
        """
        more = () if record is None else (_recorder(record),)
        return observed(kind, name, facts, self, *self._observers, *more)

    def command(self, call: Command, way: str, session: str | None = None) -> Observation:
        """Return what tells of a command that is about to be run.

        Args:
            call: The command.
            way: `session` or `oneshot`.
            session: The name of the session, if that has one.
        """
        seen = self.observed("command", call.judged, lambda: {**_facts(call), "way": way, "session": session})
        return seen.given(call.env)

    def process(self, call: Command, pty: bool) -> Observation:
        """Return what tells of a command that is about to be started in the background."""
        return self.observed("process", call.judged, lambda: {**_facts(call), "pty": pty}).given(call.env)

    def start(self) -> Observation:
        """Return what tells of a start of the target."""
        return self.observed("start", f"start {self.backend}", dict)


def came_of(seen: Observation, result: CommandResult) -> CommandResult:
    """Tell what came of a command, and return it."""
    if seen is not UNOBSERVED:
        from environments.observation.fitting import byte_size  # where somebody looks on
        from environments.output import CapturedText

        status = "timeout" if result.timed_out else interruption() if result.interrupted else None
        size = byte_size(result.output) + byte_size(result.stderr or "") + result.omitted_bytes
        seen.tell(
            ran=result.duration_seconds,
            status=status or ("success" if result.ok else "error"),
            exit_code=result.exit_code,
            output=CapturedText(result.output, result.omitted_bytes, result.omitted_at),
            stderr=result.stderr,
            output_bytes=size,
            omitted_bytes=result.omitted_bytes or None,
            cwd=result.cwd or None,
            survivors=list(result.survivors) or None,
            note=result.note,
        )
    return result


def interruption() -> Status:
    """Return how something ended that was interrupted: nobody waited for it any more, or somebody wanted it to end."""
    scope = current_scope()
    return "cancelled" if scope and scope.cancelled else "interrupted"


def came_of_tool(seen: Observation, result: object) -> object:
    """Tell what a tool returned, and return it."""
    error = result.get("error") if isinstance(result, dict) else None
    seen.tell(result=result, status="error" if error else "success", error=str(error) if error else None)
    return result


def _recorder(record: str | os.PathLike[str]) -> Observer:
    from environments.observation.record import Recorder  # which most programs have no need of

    return Recorder.at(record)


def _facts(call: Command) -> dict[str, object]:
    return {
        "command": call.judged,
        "cwd": call.cwd,
        "user": call.user,
        "timeout": call.timeout if math.isfinite(call.timeout) else None,
        "variables": sorted(call.env) or None,
        "input_bytes": len(call.stdin) or None,
    }

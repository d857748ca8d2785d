"""A command in the background, and what is known of it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

from environments.base import BaseEnvironment
from environments.errors import TerminalError
from environments.process import Process
from environments.result import KILLED_EXIT_CODE
from hermes_tools.background.input import ProcessInput
from hermes_tools.background.output import ModelReading, ProcessOutput
from hermes_tools.exit_codes import meaning_of
from hermes_tools.interruption import wait_for


class BackgroundProcess:
    """A command in the background, and what is known of it.

    Args:
        process_id: Its name here.
        command: The shell text.
        process: Its handle.
        output: Takes what it prints.
        env: Where it runs.
    """

    def __init__(
        self, process_id: str, command: str, process: Process, output: ProcessOutput, env: BaseEnvironment
    ) -> None:
        self.process_id = process_id
        self.command = command
        self.process = process
        self.output = output
        self.input = ProcessInput(process)
        self.unread = ModelReading(output, env.model_view())
        self.started = datetime.now(UTC)
        self.exit_code: int | None = None
        self.ended_at: float | None = None
        self._env = env
        self._began = time.monotonic()
        self._over = threading.Event()
        self._killed = False
        self._lock = threading.Lock()
        self._note: str | None = None
        self._explained = False

    def note_end(self, exit_code: int | None) -> None:
        """Note how it has ended; None if its target went away."""
        self.exit_code = exit_code
        self.ended_at = time.monotonic()

    def let_know(self) -> None:
        """Let those go on who wait for its end, which has been noted and told."""
        self._over.set()

    @property
    def running(self) -> bool:
        """Whether its end has not been noted."""
        return not self._over.is_set()

    @property
    def status(self) -> str:
        """`running`, `exited`, `killed` or `lost`."""
        return "running" if self.running else self.end_status

    @property
    def end_status(self) -> str:
        """The latter three, of one whose end is just being noted."""
        return "lost" if self.exit_code is None else "killed" if self._killed else "exited"

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return (time.monotonic() if self.ended_at is None else self.ended_at) - self._began

    def wait(self, seconds: float) -> None:
        """Wait for its end, or until the time is up.

        Raises:
            ToolInterruptedError: The scope of the current thread was cancelled. It runs on.
        """
        wait_for(self._over.wait, seconds)

    def kill(self) -> None:
        """End it with all that it has started, and what it has left behind if it has ended by itself."""
        if self.status in ("killed", "lost"):
            return
        self._killed = self.running
        self.process.kill()
        self._over.wait()

    def why(self) -> tuple[str | None, str | None]:
        """Return, of one that has ended, why its target is lost or None, and what its exit code means or None."""
        if self.end_status == "lost":
            try:
                self.process.poll()
            except TerminalError as error:
                return str(error), None
            return "the target went away", None
        with self._lock:
            if not self._explained:
                self._explained = True
                self._note = self._explanation()
        return None, self._note

    def _explanation(self) -> str | None:
        if self.exit_code is None or self.end_status == "killed":
            return None
        limit = self._env.internal.why_killed() if self.exit_code == KILLED_EXIT_CODE else None
        return limit or meaning_of(self.command, self.exit_code)

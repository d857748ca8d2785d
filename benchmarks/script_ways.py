"""The two ways in which a script is started: by a Python that waits in the target, and by one of its own."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Action, Timer, timed

HOME = "HERMES_HOME"


@dataclass(frozen=True, slots=True)
class Way:
    """A value of the setting `code_execution.warm`."""

    warm: str
    suffix: str
    """What tells its rows from others."""
    is_usual: bool
    """Whether it is what one has who sets nothing."""

    def timer(self, run: Action) -> Timer:
        """Make a timer of a call of `execute_code`."""
        return lambda: (self._timed(run),)

    def _timed(self, run: Action) -> float:
        with tempfile.TemporaryDirectory() as home:
            Path(home, "config.yaml").write_text(f'code_execution: {{warm: "{self.warm}"}}\n')
            before = os.environ.get(HOME)
            os.environ[HOME] = home
            try:
                return timed(run)
            finally:
                del os.environ[HOME]
                os.environ.update({HOME: before} if before is not None else {})


WAYS = (Way("auto", "", is_usual=True), Way("off", ", warm: off", is_usual=False))

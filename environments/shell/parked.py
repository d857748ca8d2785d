"""Shells whose commands have left something in the background that may still print.

They are not used any more, and read from so that nothing there has to wait for a reader. Once nothing of their commands
is left, they are ended.
"""

from __future__ import annotations

import threading
import time

from environments.shell.shell import Shell
from environments.shell.target_shells import TargetShells

FIRST_LOOK, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until it is asked whether anything is left, and between later times."""


class ParkedShells:
    """Keeps shells until what runs in them has ended.

    Args:
        shells: Ends them.
    """

    def __init__(self, shells: TargetShells) -> None:
        self._shells = shells
        self._lock = threading.Lock()
        self._parked: list[Shell] = []

    def park(self, shell: Shell) -> None:
        """Take over a shell."""
        thread = threading.Thread(target=self._drain, args=(shell,), name="hermes-parked", daemon=True)
        with self._lock:
            thread.start()
            self._parked.append(shell)
        self._shells.note_reader(thread)

    def _drain(self, shell: Shell) -> None:
        pause = FIRST_LOOK
        try:
            while shell.fit:
                shell.drop_output(time.monotonic() + pause)
                if not shell.ask(shell.dialect.asking_for_leftovers).left:
                    return
                pause = min(pause * 2, LONGEST_PAUSE)
        except BrokenPipeError:
            pass
        finally:
            self._shells.end(shell)
            with self._lock:
                self._parked.remove(shell)

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            parked = list(self._parked)
        for shell in parked:
            self._shells.end(shell)

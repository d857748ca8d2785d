"""A backend whose starts succeed, hang or fail as a test decides."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from environments.conformance.check import wait_until
from environments.settings import EnvironmentSettings
from environments.shell.child_stream import ChildStream
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal
from environments.starting import StartLimits, current_start
from targets.processes import is_dead

BACKEND = f"{__name__}:ScriptedStartEnvironment"


class StartScript:
    """The outcomes of a test's starts, and counters of them."""

    def __init__(self) -> None:
        self.errors: deque[Exception] = deque()
        """Errors of the next starts, in turn."""
        self.always: Exception | None = None
        """The error of all other starts."""
        self.may_start = threading.Event()
        """Starts hang until this event is set."""
        self.may_start.set()
        self.tries = self.starting = self.most_starting = self.up = self.most_up = 0
        self.together: list[int] = []
        """Number of starts in progress at the beginning of each start."""
        self.shells: dict[str, list[int]] = {}
        """Process ids of each environment's shells, by task."""
        self._lock = threading.Lock()

    def start(self) -> None:
        with self._lock:
            self.tries += 1
            self.starting += 1
            self.most_starting = max(self.most_starting, self.starting)
            self.together.append(self.starting)
        try:
            while not self.may_start.wait(0.01):
                current_start().check()
            if error := self.errors.popleft() if self.errors else self.always:
                raise error
            with self._lock:
                self.up += 1
                self.most_up = max(self.most_up, self.up)
        finally:
            with self._lock:
                self.starting -= 1

    def lose(self) -> None:
        """Kill all shells, as the loss of a target does."""
        killed = [*itertools.chain.from_iterable(self.shells.values())]
        for pid in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: all(is_dead(pid) for pid in killed))

    def stop(self) -> None:
        with self._lock:
            self.up -= 1


class ScriptedStartEnvironment(PersistentShellEnvironment):
    """A local backend. Each environment counts as a target of its own."""

    same_machine = True
    starts: ClassVar[StartScript]
    place: ClassVar[str] = ""
    look_interval: ClassVar[float] = 0.05

    @classmethod
    def start_limits(cls, settings: EnvironmentSettings) -> StartLimits:
        return StartLimits(cls.place, look_interval=cls.look_interval)

    def start_target(self) -> None:
        self._is_up = False
        self.starts.start()
        self._is_up = True

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        stream = ChildStream(argv, terminal=terminal)
        self.starts.shells.setdefault(self.settings.task_id, []).append(stream._child.pid)
        return stream

    def stop_target(self) -> None:
        if self._is_up:
            self._is_up = False
            self.starts.stop()

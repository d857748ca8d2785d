"""Running a program of this machine to its end, in a session of its own, so that a start can end all of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from environments.starting import current_start

GRACE = 0.5
"""Seconds that a program has to tidy up when it is ended."""


def run_child(
    argv: Sequence[str], environment: Mapping[str, str], on_line: Callable[[str], object] | None = None
) -> tuple[int, str]:
    """Run a program, and return its exit code and what it printed, its standard output first.

    When the start that the current thread is at is stopped, the program is ended with all that it has started.

    Args:
        argv: The program and its arguments.
        environment: All of its variables.
        on_line: Told of each line as it comes; standard output and standard error are then returned as they came.

    Raises:
        OSError: It could not be started.
        StartStoppedError: It was ended.
    """
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if on_line else subprocess.PIPE,
        env=environment,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    with child, _ended_with_the_start(child):
        if on_line is None:
            return _outcome(child, *child.communicate())
        assert child.stdout
        lines = []
        for line in child.stdout:
            lines.append(line)
            on_line(line)
        child.wait()
        return _outcome(child, *lines)


def _outcome(child: subprocess.Popen[str], *texts: str) -> tuple[int, str]:
    return child.returncode, "".join(texts)


@contextlib.contextmanager
def _ended_with_the_start(child: subprocess.Popen[str]) -> Iterator[None]:
    """End a program when the start is stopped, or on any error: with TERM, and after a grace with KILL."""
    asked: list[float] = []

    def end() -> None:
        now = time.monotonic()
        if child.returncode is not None or (asked and now - asked[0] < GRACE):
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL if asked else signal.SIGTERM)
        asked.append(now)

    try:
        with current_start().aborting(end):
            yield
    except BaseException:
        end()
        raise

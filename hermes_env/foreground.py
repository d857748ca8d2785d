"""Work in the foreground: its output shows as it comes, and Ctrl-C ends it in the target as well."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from environments.controls import HarmlessText

Result = TypeVar("Result")

BROKEN_PIPE_EXIT_CODE = 141
"""128 + SIGPIPE, what a shell returns for a command whose reader has gone."""
_REPEAT_SECONDS = 0.5


class LiveOutput:
    """Standard output that is written as text arrives.

    Args:
        when_reader_leaves: Called once nobody reads any more.
        raw: Whether a terminal gets the text as it is. Otherwise it gets no control of it but colours, as a title, the
            clipboard or the screen are not for a target to set. What is no terminal always gets everything.
    """

    def __init__(self, when_reader_leaves: Callable[[], object], raw: bool = False) -> None:
        self._when_reader_leaves = when_reader_leaves
        self._harmless = HarmlessText() if sys.stdout.isatty() and not raw else None
        self.reader_left = False
        """Whether nobody reads any more, as after `| head -1`."""
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")

    def write(self, text: str) -> None:
        """Show a piece of text at once."""
        self._write(self._harmless.feed(text) if self._harmless else text)

    def finish(self) -> None:
        """Show what was held back, and no colour from here on."""
        if self._harmless:
            self._write(self._harmless.feed("", final=True))

    def _write(self, text: str) -> None:
        if self.reader_left or not text:
            return
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            self.reader_left = True
            # Python flushes standard output once more when it exits, and would complain again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self._when_reader_leaves()


def run_interruptibly(work: Callable[[], Result], interrupt: Callable[[], object]) -> Result:
    """Run something, and have Ctrl-C (or SIGTERM, SIGHUP) end it by a call, not by an exception inside of it.

    The work has a thread of its own, so that the signal finds this one waiting and holding no lock.

    Args:
        work: What to run. It should return soon after it was interrupted.
        interrupt: Ends the work. It is called again until the work has returned, because an environment that
            is still starting has no command to end yet.
    """
    interrupted = False
    with _signals_interrupt(), ThreadPoolExecutor(max_workers=1, thread_name_prefix="foreground") as pool:
        future = pool.submit(work)
        while not future.done():
            try:
                wait([future], timeout=_REPEAT_SECONDS if interrupted else None)
            except KeyboardInterrupt:
                interrupted = True
            if interrupted and not future.done():
                interrupt()
        return future.result()


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Make the signals that end a program raise KeyboardInterrupt, as Ctrl-C does."""
    ending = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in ending]
    for number, handler in zip(ending, before, strict=True):
        # nohup has a program ignore SIGHUP; that stays.
        if handler is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in zip(ending, before, strict=True):
            signal.signal(number, handler)

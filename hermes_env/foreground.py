"""Work in the foreground: Ctrl-C ends it in the target as well."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")

_REPEAT_SECONDS = 0.5


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
                # A signal that comes just before a wait begins is noticed only behind it, so that none may be long.
                wait([future], timeout=_REPEAT_SECONDS)
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

"""Work in the foreground, in an environment that is there for it: Ctrl-C ends it in the target as well."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from environments import BaseEnvironment, create_environment
from hermes_env.approver import approver
from hermes_env.cli.streams import LiveOutput
from hermes_env.progress import ShownProgress

Result = TypeVar("Result")

_REPEAT_SECONDS = 0.5


def run_in_environment(
    work: Callable[[BaseEnvironment], Result],
    interrupt: Callable[[], object],
    interrupted: Callable[[], bool],
    output: LiveOutput | None,
    *,
    backend: str | None,
    settings: Mapping[str, object],
    verbose: int,
) -> Result:
    """Run something in an environment, which is made for it and cleaned up, with its progress shown.

    Args:
        work: What to run. It should return soon after it was interrupted.
        interrupt: Ends the work, see `run_interruptibly`.
        interrupted: Whether it was to be ended. Nobody is then asked for approval any more.
        output: Where the work shows its output. What that holds back is shown in the end. None where it has none.
        backend: The backend's name; None is the configured one.
        settings: Settings of the environment.
        verbose: Whether each step of a start is told: 0 is no.

    Raises what the work raises, or `create_environment`.
    """
    with (
        ShownProgress(verbose) as shown,
        create_environment(backend, approve=approver(interrupted), on_progress=shown.tell, **settings) as environment,
    ):
        try:
            return run_interruptibly(partial(work, environment), interrupt)
        finally:
            if output:
                output.finish()


def run_interruptibly(
    work: Callable[[], Result], interrupt: Callable[[], object], again: Callable[[], object] | None = None
) -> Result:
    """Run something, and have Ctrl-C (or SIGTERM, SIGHUP) end it by a call, not by an exception inside of it.

    The work has a thread of its own, so that the signal finds this one waiting and holding no lock.

    Args:
        work: What to run. It should return soon after it was interrupted.
        interrupt: Ends the work. It is called again until the work has returned, because an environment that
            is still starting has no command to end yet.
        again: Called when a second signal comes while the work is being ended.
    """
    interrupted = False
    with _signals_interrupt(), ThreadPoolExecutor(max_workers=1, thread_name_prefix="foreground") as pool:
        future = pool.submit(work)
        while not future.done():
            try:
                if interrupted:
                    interrupt()
                # A signal that comes just before a wait begins is noticed only behind it, so that none may be long.
                wait([future], timeout=_REPEAT_SECONDS)
            except KeyboardInterrupt:
                if interrupted and again:
                    again()
                interrupted = True
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

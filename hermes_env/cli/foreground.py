"""Runs work in the foreground: Ctrl-C, SIGTERM and SIGHUP also end the processes in the target."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TypeVar

from environments import BaseEnvironment, create_environment
from environments.cancellation import CancelScope
from environments.errors import CallCancelledError, StartStoppedError
from hermes_env.approver import approver
from hermes_env.cli.debug_log import show_new_host_keys
from hermes_env.cli.errors import EndedBySignalError
from hermes_env.cli.streams import LiveOutput
from hermes_env.progress import StartDisplay

Result = TypeVar("Result")

_REPEAT_SECONDS = 0.5


class Foreground:
    """Runs work in a scope. A signal cancels the scope."""

    def __init__(self) -> None:
        self.scope = CancelScope()
        self.ended_by: str | None = None
        """The name of the signal that ended the work, such as "Ctrl-C"."""

    def run(self, work: Callable[[], Result]) -> Result:
        """Run a function in the scope.

        Raises:
            EndedBySignalError: A signal ended the work.
            Exception: Any other error of the work.
        """
        try:
            return run_interruptibly(partial(self._in_scope, work), self._end)
        except (CallCancelledError, StartStoppedError) as error:
            if self.ended_by and not getattr(error, "timed_out", False):
                raise EndedBySignalError(f"ended by {self.ended_by}") from error
            raise

    def _in_scope(self, work: Callable[[], Result]) -> Result:
        with self.scope.active():
            return work()

    def _end(self, signal_name: str) -> None:
        self.ended_by = signal_name
        self.scope.cancel()

    def run_in_environment(
        self,
        work: Callable[[BaseEnvironment], Result],
        output: LiveOutput | None = None,
        *,
        backend: str | None,
        settings: Mapping[str, object],
        verbose: int,
    ) -> Result:
        """Run a function in a new environment, and clean up. Shows the progress of the start.

        Args:
            work: Receives the environment. Should return soon after the scope was cancelled.
            output: The output of the work, flushed at the end.
            backend: The backend's name; None is the configured backend.
            settings: Settings of the environment.
            verbose: Above 0, each step of a start is printed.

        Raises:
            EndedBySignalError: As `run`, with the other errors of the work and of `create_environment`.
        """
        show_new_host_keys()
        asking = approver(lambda: self.scope.cancelled)
        with (
            StartDisplay(verbose) as display,
            create_environment(backend, approve=asking, on_progress=display.update, **settings) as environment,
        ):
            try:
                return self.run(partial(work, environment))
            finally:
                if output:
                    output.finish()


def run_interruptibly(
    work: Callable[[], Result], interrupt: Callable[[str], object], on_second: Callable[[], object] | None = None
) -> Result:
    """Run a function. Ctrl-C, SIGTERM or SIGHUP end the work by a call, not by an exception inside the work.

    The work runs in a new thread, so a signal interrupts a wait without locks in this thread.

    Args:
        work: Should return soon after an interrupt.
        interrupt: Ends the work; receives the signal's name. Called repeatedly until the work has returned, because a
            starting environment has no command to end yet.
        on_second: Called for a second signal during the end of the work.
    """
    name = ""
    with _signals_interrupt(), ThreadPoolExecutor(max_workers=1, thread_name_prefix="foreground") as pool:
        future = pool.submit(work)
        while not future.done():
            try:
                if name:
                    interrupt(name)
                # A signal just before a wait is handled only after the wait, so each wait is short.
                wait([future], timeout=_REPEAT_SECONDS)
            except KeyboardInterrupt as error:
                if name and on_second:
                    on_second()
                name = name or str(error) or "Ctrl-C"
        return future.result()


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt with the signal's name; Ctrl-C raises an empty one."""
    ending = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in ending]
    for number, handler in zip(ending, before, strict=True):
        # Keep SIGHUP ignored under nohup.
        if handler is not signal.SIG_IGN:
            signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in zip(ending, before, strict=True):
            signal.signal(number, handler)


def _raise(number: int, _: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)

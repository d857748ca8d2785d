"""Work in the foreground: Ctrl-C, SIGTERM and SIGHUP end it in the target as well."""

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
    """Runs work that a signal ends by cancelling a scope."""

    def __init__(self) -> None:
        self.scope = CancelScope()
        self.ended_by: str | None = None
        """The signal that has ended the work, such as "Ctrl-C"."""

    def run(self, work: Callable[[], Result]) -> Result:
        """Run something in the scope.

        Raises what the work raises, and EndedBySignalError where a signal is the reason for that.
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
        """Run something in an environment, which is made for it and cleaned up, with its progress shown.

        Args:
            work: Takes the environment. It should return soon after the scope was cancelled.
            output: Where the work shows its output, if it has any. What that holds back is shown in the end.
            backend: The backend's name; None is the configured one.
            settings: Settings of the environment.
            verbose: Whether each step of a start is reported: 0 is no.

        Raises what the work raises, or `create_environment`, and EndedBySignalError as `run`.
        """
        show_new_host_keys()
        asking = approver(lambda: self.scope.cancelled)
        with (
            StartDisplay(verbose) as shown,
            create_environment(backend, approve=asking, on_progress=shown.update, **settings) as environment,
        ):
            try:
                return self.run(partial(work, environment))
            finally:
                if output:
                    output.finish()


def run_interruptibly(
    work: Callable[[], Result], interrupt: Callable[[str], object], again: Callable[[], object] | None = None
) -> Result:
    """Run something, and have Ctrl-C (or SIGTERM, SIGHUP) end it by a call, not by an exception inside of it.

    The work has a thread of its own, so that the signal finds this one waiting and holding no lock.

    Args:
        work: It should return soon after it was interrupted.
        interrupt: Ends the work; takes the signal's name. It is called again until the work has returned, because an
            environment that is still starting has no command to end yet.
        again: Called when a second signal comes while the work is being ended.
    """
    name = ""
    with _signals_interrupt(), ThreadPoolExecutor(max_workers=1, thread_name_prefix="foreground") as pool:
        future = pool.submit(work)
        while not future.done():
            try:
                if name:
                    interrupt(name)
                # A signal that comes just before a wait begins is noticed only behind it, so that none may be long.
                wait([future], timeout=_REPEAT_SECONDS)
            except KeyboardInterrupt as error:
                if name and again:
                    again()
                name = name or str(error) or "Ctrl-C"
        return future.result()


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Make the signals that end a program raise KeyboardInterrupt with their name, as Ctrl-C does without one."""
    ending = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in ending]
    for number, handler in zip(ending, before, strict=True):
        # nohup has a program ignore SIGHUP; that stays.
        if handler is not signal.SIG_IGN:
            signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in zip(ending, before, strict=True):
            signal.signal(number, handler)


def _raise(number: int, _: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)

"""A command that a shell is running, and how it is made to end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from environments.cancellation import ended_in_scope
from environments.errors import TerminalError
from environments.shell.hearing import Ended
from environments.shell.output import CommandOutput
from environments.shell.shell import Shell
from environments.shell.watch import Watch
from environments.sink import OutputSink

if TYPE_CHECKING:
    from environments.shell.process_tree import ProcessTree

INTERRUPT_POLL = 0.05
"""Seconds between looks at an event that may end a command."""
LEAVE_TIMEOUT = 2.0
"""Seconds a shell has to leave a command of which no process is left, before it is killed itself, and what the command
has changed is lost. It takes milliseconds, but on a loaded machine."""


class RunningCommand:
    """Ends a command at most once, while another thread goes on reading what it prints.

    Reading must go on: a process that is told to end may first have something to say, and would wait for a reader.

    Args:
        shell: The shell that runs it.
        processes: Makes what finds and ends its processes.
        grace: Seconds between TERM and KILL.
        on_cancel: Called when the command is about to be ended, once all that it had printed by then was read.

    Attributes:
        reason: Why the command was ended, `timeout` or `interrupt`; None while it was not.
        failure: Why that failed, if it did.
        survivors: The process ids of what could not be ended.
    """

    def __init__(
        self,
        shell: Shell,
        processes: Callable[[], ProcessTree],
        grace: float,
        on_cancel: Callable[[], None] | None = None,
    ) -> None:
        self.reason: str | None = None
        self.failure: TerminalError | None = None
        self.survivors: tuple[int, ...] = ()
        self._shell = shell
        self._processes = processes
        self._grace = grace
        self._on_cancel = on_cancel
        self._lock = threading.Lock()
        self._is_over = False
        self._killed_shell = False
        self._over: threading.Event | None = None  # as long as nobody waits for it, it need not be made
        self._thread: threading.Thread | None = None
        self._watch: Watch | None = None

    def time_out(self) -> None:
        """Begin to end the command because its time is up."""
        self._cancel("timeout")

    def interrupt(self) -> None:
        """Begin to end the command because somebody asked for it."""
        self._cancel("interrupt")

    def abandon(self) -> None:
        """Note that the command is being ended along with everything else of its environment."""
        with self._lock:
            if not self.reason and not self._is_over:
                self.reason = "interrupt"

    def _cancel(self, reason: str) -> None:
        with self._lock:
            if self.reason or self._is_over:
                return
            self.reason = reason
            self._over = threading.Event()
            try:
                self._start_ending(self._over)
            except RuntimeError:  # the command has taken what threads this process may have too, under the same limit
                self._end_without_thread(self._over)

    def _start_ending(self, over: threading.Event) -> None:
        thread = threading.Thread(target=self._end, args=(over,), name="hermes-end-command", daemon=True)
        thread.start()
        self._thread = thread

    def _end_without_thread(self, over: threading.Event) -> None:
        """End the command while nobody reads what it prints, which makes room for a thread that does the rest."""
        try:
            self._processes().end(self._grace)
            self._start_ending(over)
        except (TerminalError, RuntimeError) as error:
            self.failure = error if isinstance(error, TerminalError) else TerminalError(f"no thread is left: {error}")
            self._shell.close()

    def _end(self, over: threading.Event) -> None:
        tree = self._processes()
        try:
            if self._on_cancel:
                # A time-out is noticed by the reader when there is nothing to read. Anyone may interrupt, also while
                # output lies unread: on the way to the target and back the reader comes to that.
                if self.reason == "interrupt":
                    tree.look()
                self._on_cancel()
            self.survivors = tree.end(self._grace)
            if not self._is_over_in(LEAVE_TIMEOUT, over):
                self._killed_shell = True
                tree.kill_shell()
        except TerminalError as error:
            self.failure = error
            self._shell.close()  # the target does not answer: let the reader go
        from environments.shell.process_tree import KILL_LIMIT  # most commands end by themselves

        if not self._is_over_in(KILL_LIMIT, over):
            self._shell.close()

    def _is_over_in(self, limit: float, over: threading.Event) -> bool:
        """Wait so many seconds for the command's end to be read. The time in which nobody reads does not count."""
        was_away = True
        while was_away:
            was_away = self._reader_is_away
            if over.wait(limit):
                return True
            was_away = was_away or self._reader_is_away
        return False

    @property
    def _reader_is_away(self) -> bool:
        return self._watch is not None and self._watch.is_away

    def read_to_end(self, output: OutputSink, timeout: float, interrupt: threading.Event | None = None) -> Ended:
        """Read until the command has ended, by itself or because of us, and nothing is left in the latter case.

        Args:
            output: Takes what it prints. An error of its own ends the command, and is raised.
            timeout: Seconds until the command is ended; infinite for no limit.
            interrupt: Ends the command when it is set.
        """
        deadline = time.monotonic() + timeout

        def look() -> float | None:
            if interrupt and interrupt.is_set():
                self.interrupt()
            elif (now := time.monotonic()) >= deadline:
                self.time_out()
            else:
                return min(deadline, now + INTERRUPT_POLL) if interrupt else deadline
            return None

        if isinstance(output, CommandOutput) and output.calls_back:
            self._watch = Watch(look)
            output.watched_by(self._watch)
        try:
            with ended_in_scope(self.interrupt):
                return self._shell.receive(output, look(), look)
        except BaseException:  # of the output, or control-C: nobody will wait for the command any more
            output.freeze()
            self.interrupt()
            self._shell.receive(output)
            raise
        finally:
            self.finished()

    def finished(self) -> None:
        """Note that the shell is done with the command, and wait until nothing is left of it."""
        with self._lock:
            self._is_over = True
            thread = self._thread
            if self._over:
                self._over.set()
        if self._watch:
            self._watch.end()
        if thread and thread is not threading.current_thread():
            thread.join()
            # The signal that makes it leave the command may reach it behind the command's end.
            self._shell.was_told_to_leave(killed=self._killed_shell)

    def sweep(self) -> None:
        """End what a command that has ended by itself left in the background."""
        if self.reason is None:
            self.reason = "sweep"
            self.survivors = self._processes().end(self._grace, running=False)

    def end_orphans(self) -> bool:
        """End what is left of a command whose shell was killed, and return whether there was anything."""
        tree = self._processes()
        if not tree.look():
            return False
        self.survivors = tree.end(self._grace, running=False)
        return True

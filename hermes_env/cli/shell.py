"""`hermes-env shell`: a shell of the target on the user's own terminal."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum, auto
from queue import SimpleQueue
from typing import Annotated

import typer

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope, in_no_scope
from environments.errors import CallCancelledError
from environments.process import Process
from environments.result import INTERRUPT_EXIT_CODE, KILLED_EXIT_CODE
from hermes_env.cli.errors import tell
from hermes_env.cli.foreground import Foreground
from hermes_env.cli.options import Backend, Cwd, Record, Settings, Verbose, settings_from
from hermes_env.cli.streams import InputPump, LiveOutput, has_room
from hermes_env.cli.terminal import Keys, RawTerminal, Screen, size_of, terminal_of_input

_THE_USERS_SHELL = """\
# a shell of the target's user
stty iutf8 2>/dev/null
case ${SHELL-} in
'' | */nologin | */false) ;;
*) if command -v "$SHELL" >/dev/null 2>&1; then exec "$SHELL"@LOGIN@; fi ;;
esac
if command -v bash >/dev/null 2>&1; then exec bash@LOGIN@; fi
exec sh@LOGIN@"""
"""A new terminal does not know that a character may have several bytes, which erasing one has to."""


def shell_command(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="CMD", help="A command to run in place of a shell.")
    ] = None,
    *,
    backend: Backend = None,
    cwd: Cwd = None,
    record: Record = None,
    verbose: Verbose = 0,
    assignments: Settings = None,
) -> None:
    """Open a shell in the target, on this terminal.

    It is the shell of the target's user, or bash, or sh. A command is run in its place as by `exec`: `shell -- top`.
    All that is typed goes there, control-C and control-Z too. With the session all that it started ends.

    `~.` at the beginning of a line ends the session, also when the target does not answer; `~~` types a tilde.

    Exit codes: the shell's own; 130 ended by `~.`, a signal, or Ctrl-C during the start; 126 not allowed, 125 another
    error of hermes-env, 2 wrong usage or setting.
    """
    foreground = Foreground()
    session = InteractiveSession(terminal_of_input(), foreground.scope)
    output = LiveOutput(foreground.scope.cancel, raw=True)

    def work(environment: BaseEnvironment) -> int:
        with in_no_scope():  # what ends the session is not to be ended itself
            code = session.run(environment, _command(words or [], login=environment.settings.login_shell), output)
            if code == KILLED_EXIT_CODE and (note := environment.internal.why_killed()):
                tell(note)
        return code

    settings = settings_from(assignments, cwd=cwd, record=record)
    with session.heeding_signals():
        code = foreground.run_in_environment(work, output, backend=backend, settings=settings, verbose=verbose)
    if foreground.ended_by:
        tell(f"ended by {foreground.ended_by}", "yellow")
    raise typer.Exit(code)


def _command(words: list[str], *, login: bool) -> str:
    """Return what is to be run, as shell text."""
    if not words:
        return _THE_USERS_SHELL.replace("@LOGIN@", " -l" if login else "")
    return words[0] if len(words) == 1 else shlex.join(words)


class _Event(Enum):
    RESIZED = auto()
    CONTINUED = auto()
    OVER = auto()


class InteractiveSession:
    """Runs one command on a terminal of the target, shown on this one.

    Args:
        terminal: The descriptor of this one.
        scope: Ends the command, or the start of its target, when it is cancelled.
    """

    def __init__(self, terminal: int, scope: CancelScope) -> None:
        self._terminal = terminal
        self._scope = scope
        # A signal handler may put an event into it while the interrupted thread does the same.
        self._events: SimpleQueue[_Event] = SimpleQueue()

    @contextmanager
    def heeding_signals(self) -> Iterator[None]:
        """Pass on changes of the window's size in the block, which the main thread enters."""
        events = {signal.SIGWINCH: _Event.RESIZED, signal.SIGCONT: _Event.CONTINUED}
        before = {
            number: signal.signal(number, lambda *_, event=event: self._events.put(event))
            for number, event in events.items()
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def run(self, environment: BaseEnvironment, command: str, output: LiveOutput) -> int:
        """Run a command until it ends, or is ended, and return its exit code; 130 if it was ended.

        Args:
            environment: Where it runs.
            command: Shell text.
            output: Shows what comes.

        Raises what `BaseEnvironment.start` raises, and EnvironmentLostError. This terminal is then as it was before.
        """
        is_raw = threading.Event()
        screen, line_end = Screen(output, is_raw), b""
        try:
            process = self._started(environment, command, screen)
            with RawTerminal(self._terminal) as raw:
                is_raw.set()
                line_end = b"\n"  # it may break off in the middle of a line
                code = self._attend(process, raw, screen)
            if code is None:
                return INTERRUPT_EXIT_CODE
            line_end = b""
        except CallCancelledError:
            screen.freeze()
            return INTERRUPT_EXIT_CODE
        finally:
            is_raw.set()  # output that could not be shown waits no longer
            _show_last(screen.undoing() + line_end)
        return code

    def _started(self, environment: BaseEnvironment, command: str, screen: Screen) -> Process:
        size = size_of(self._terminal)
        with self._scope.active():
            process = environment.start(
                command, pty=True, rows=size.rows, columns=size.columns, env=_variables(), sink=screen
            )
        process.add_done_callback(lambda _: self._events.put(_Event.OVER))
        return process

    def _attend(self, process: Process, raw: RawTerminal, screen: Screen) -> int | None:
        """Return the exit code of a process when it has ended, or None when it was ended by its scope."""
        with ExitStack() as stack:
            stack.enter_context(self._scope.calling(lambda: self._events.put(_Event.OVER)))
            stack.callback(InputPump(self._terminal, Keys(process, self._scope.cancel)).stop)
            while (event := self._events.get()) is not _Event.OVER:
                if event is _Event.CONTINUED:
                    raw.enforce()
                size = size_of(self._terminal)  # which may have changed, too, while we were stopped
                process.resize(size.rows, size.columns)
            if (code := process.poll()) is not None and not self._scope.cancelled:
                return code
            screen.freeze()
            process.kill()
        return None


def _variables() -> Mapping[str, str]:
    """Return the variables by which programs there know this terminal."""
    kind = os.environ.get("TERM", "dumb")
    return {} if kind == "dumb" else {"TERM": kind}


def _show_last(data: bytes) -> None:
    """Write what resets the terminal, unless it takes nothing any more."""
    if not data or sys.stdout is None:
        return
    if has_room(sys.stdout.fileno()):
        with suppress(OSError):
            os.write(sys.stdout.fileno(), data)

"""`hermes-env shell`: opens a shell of the target on the user's terminal."""

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
from hermes_env.cli.errors import print_message
from hermes_env.cli.foreground import Foreground
from hermes_env.cli.options import Backend, Cwd, Record, Settings, Verbose, settings_from
from hermes_env.cli.streams import InputPump, LiveOutput, accepts_output
from hermes_env.cli.terminal import Keys, RawTerminal, Screen, size_of, terminal_of_input

_LOGIN_SHELL = """\
# a shell of the target's user
stty iutf8 2>/dev/null
case ${SHELL-} in
'' | */nologin | */false) ;;
*) if command -v "$SHELL" >/dev/null 2>&1; then exec "$SHELL"@LOGIN@; fi ;;
esac
if command -v bash >/dev/null 2>&1; then exec bash@LOGIN@; fi
exec sh@LOGIN@"""
"""Shell text that runs the user's shell. `stty iutf8`: otherwise the new terminal erases characters byte by byte."""


def shell_command(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="CMD", help="Run this command instead of a shell.")
    ] = None,
    *,
    backend: Backend = None,
    cwd: Cwd = None,
    record: Record = None,
    verbose: Verbose = 0,
    assignments: Settings = None,
) -> None:
    """Open a shell in the target, on this terminal.

    Runs the shell of the target's user, or bash, or sh; or a command, as with `exec`: `shell -- top`. All keys go to
    the target, also control-C and control-Z. The end of the session ends all its processes.

    `~.` at the beginning of a line ends the session, also if the target does not answer; `~~` types a tilde.

    Exit codes: the shell's own; 130 ended by `~.`, a signal, or Ctrl-C during the start; 126 not allowed, 125 another
    error of hermes-env, 2 wrong usage or setting.
    """
    foreground = Foreground()
    session = InteractiveSession(terminal_of_input(), foreground.scope)
    output = LiveOutput(foreground.scope.cancel, raw=True)

    def work(environment: BaseEnvironment) -> int:
        with in_no_scope():  # the clean-up after a cancelled session must not be cancelled
            code = session.run(environment, _command(words or [], login=environment.settings.login_shell), output)
            if code == KILLED_EXIT_CODE and (note := environment.internal.why_killed()):
                print_message(note)
        return code

    settings = settings_from(assignments, cwd=cwd, record=record)
    with session.window_signals():
        code = foreground.run_in_environment(work, output, backend=backend, settings=settings, verbose=verbose)
    if foreground.ended_by:
        print_message(f"ended by {foreground.ended_by}", "yellow")
    raise typer.Exit(code)


def _command(words: list[str], *, login: bool) -> str:
    """Return the command as shell text."""
    if not words:
        return _LOGIN_SHELL.replace("@LOGIN@", " -l" if login else "")
    return words[0] if len(words) == 1 else shlex.join(words)


class _Event(Enum):
    RESIZED = auto()
    CONTINUED = auto()
    OVER = auto()


class InteractiveSession:
    """Runs a command on a terminal of the target, shown on the local terminal.

    Args:
        terminal: The file descriptor of the local terminal.
        scope: Cancelling the scope ends the command, or the start of the target.
    """

    def __init__(self, terminal: int, scope: CancelScope) -> None:
        self._terminal = terminal
        self._scope = scope
        # A SimpleQueue: a signal handler may put an event while the interrupted thread does the same.
        self._events: SimpleQueue[_Event] = SimpleQueue()

    @contextmanager
    def window_signals(self) -> Iterator[None]:
        """Handle SIGWINCH and SIGCONT in the block, in the main thread."""
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
        """Run a command, and return the exit code; 130 if the scope ended the command. Restores the local terminal.

        Args:
            environment: The environment.
            command: Shell text.
            output: Shows the output.

        Raises:
            EnvironmentLostError: The target was lost.
            TerminalError: As `BaseEnvironment.start`.
        """
        is_raw = threading.Event()
        screen, line_end = Screen(output, is_raw), b""
        try:
            process = self._started(environment, command, screen)
            with RawTerminal(self._terminal) as raw:
                is_raw.set()
                line_end = b"\n"  # output may end in the middle of a line
                code = self._wait(process, raw, screen)
            if code is None:
                return INTERRUPT_EXIT_CODE
            line_end = b""
        except CallCancelledError:
            screen.freeze()
            return INTERRUPT_EXIT_CODE
        finally:
            is_raw.set()  # release output that waits for raw mode
            _reset_terminal(screen.reset_sequence() + line_end)
        return code

    def _started(self, environment: BaseEnvironment, command: str, screen: Screen) -> Process:
        size = size_of(self._terminal)
        with self._scope.active():
            process = environment.start(
                command, pty=True, rows=size.rows, columns=size.columns, env=_variables(), sink=screen
            )
        process.add_done_callback(lambda _: self._events.put(_Event.OVER))
        return process

    def _wait(self, process: Process, raw: RawTerminal, screen: Screen) -> int | None:
        """Wait for a process, and return the exit code; None if the scope ended the process."""
        with ExitStack() as stack:
            stack.enter_context(self._scope.calling(lambda: self._events.put(_Event.OVER)))
            stack.callback(InputPump(self._terminal, Keys(process, self._scope.cancel)).stop)
            while (event := self._events.get()) is not _Event.OVER:
                if event is _Event.CONTINUED:
                    raw.enforce()
                size = size_of(self._terminal)  # may also have changed while this process was stopped
                process.resize(size.rows, size.columns)
            if (code := process.poll()) is not None and not self._scope.cancelled:
                return code
            screen.freeze()
            process.kill()
        return None


def _variables() -> Mapping[str, str]:
    """Return the variables that describe this terminal to programs in the target."""
    kind = os.environ.get("TERM", "dumb")
    return {} if kind == "dumb" else {"TERM": kind}


def _reset_terminal(data: bytes) -> None:
    """Write the reset sequence to the terminal, unless the terminal is stopped."""
    if not data or sys.stdout is None:
        return
    if accepts_output(sys.stdout.fileno()):
        with suppress(OSError):
            os.write(sys.stdout.fileno(), data)

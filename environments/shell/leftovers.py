"""What a command of the session has left in the background: its output reaches no later command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from environments.errors import TerminalError
from environments.shell.dialect.commands import output_is_held
from environments.shell.shell import Shell
from environments.shell.target_shells import TargetShells

if TYPE_CHECKING:
    from environments.shell.process_tree import RunInTarget

REPORT_LIMIT = 1.0
"""Seconds for the state that the last command left behind. A plain sh may have nothing to say."""


class Leftovers:
    """Sets a shell apart from what its last command has left.

    Args:
        shells: Opens processes in the target.
        run: Runs a command of our own there.
    """

    def __init__(self, shells: TargetShells, run: RunInTarget) -> None:
        self._shells = shells
        self._run = run

    def settle(self, shell: Shell) -> None:
        """Have a shell speak where nothing of an earlier command could, if something is left that might.

        One on a terminal goes on there: as on every terminal, what is left may show something at any time.

        Raises:
            BrokenPipeError: The shell has ended.
            TerminalError: It could not be done.
        """
        shell.await_report(REPORT_LIMIT)  # which is lost with the stream that it is on
        noisy = shell.is_noisy
        left = shell.ask(shell.dialect.asking_for_leftovers).left
        suspect = (left or noisy or shell.is_noisy) and not shell.dialect.on_terminal
        if suspect and self._output_is_held(shell):
            self._redirect(shell)
        if left:
            shell.tell(shell.dialect.new_leash())
        shell.has_leftovers = shell.is_noisy = False

    def _output_is_held(self, shell: Shell) -> bool:
        dialect = shell.dialect
        text = output_is_held(shell.pid, shell.marker, (dialect.leash, dialect.leash_end), (dialect.out, dialect.err))
        return self._run(text).output.strip() != "free"

    def _redirect(self, shell: Shell) -> None:
        from environments.shell.outlet import Outlet, RedirectedStream  # most commands leave nothing that prints

        stream = shell.stream
        if isinstance(stream, RedirectedStream):
            outlet = stream.outlet
        else:
            outlet = Outlet(self._shells.open_process, shell.marker)
        try:
            directory = outlet.new_pipes()
            shell.tell(shell.dialect.redirecting(directory))
            if not isinstance(stream, RedirectedStream):
                shell.stream = redirected = RedirectedStream(stream, outlet)
                self._shells.note_reader(redirected.reader)
            shell.ask(shell.dialect.asking_for_leftovers)  # which it answers through the pipes
            outlet.opened()
        except BrokenPipeError:
            outlet.stream.close()
            raise TerminalError(
                "a command left something in the background that prints, and its output could not be set apart; "
                "send it to a file, or start it with `start`"
            ) from None

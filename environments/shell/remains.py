"""What the commands of one scope have left running in the background, which ends with the scope."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from environments.errors import TerminalError
from environments.process import GRACE
from environments.shell.process_tree import Quarry
from environments.shell.shell import Shell

if TYPE_CHECKING:
    from environments.process import Process
    from environments.shell.process_tree import ProcessTree


class ScopeRemains:
    """Notes, for one environment, by what signs that is found which a scope's commands have left.

    Args:
        processes: Finds and ends the processes of a quarry.
        postpone: Takes what was raised where nobody can be told, see `Lifecycle.postpone`.
        has_no_process: Whether it is certain without a look in the target that no process has any of these markers.
    """

    def __init__(
        self,
        processes: Callable[[Quarry], ProcessTree],
        postpone: Callable[[TerminalError], object],
        has_no_process: Callable[[str], bool],
    ) -> None:
        self._postpone = postpone
        self._has_no_process = has_no_process
        self._processes_of = processes
        self._shell: Shell | None = None
        self._markers: list[str] = []
        self._trees: list[ProcessTree] = []
        self._processes: list[Process] = []

    def add_command(self, shell: Shell, marker: str) -> None:
        """Note a command that has ended. What holds its leash is looked for now: later the shell has another.

        Args:
            shell: The shell that ran it.
            marker: The value of its marker variable.
        """
        self._shell = shell
        self._markers.append(marker)
        if shell.has_leftovers:
            tree = self._processes_of(Quarry(marker, type(shell.dialect), shell.pid))
            try:
                if tree.look():
                    self._trees.append(tree)
            except TerminalError as error:  # the marker is looked for again
                self._postpone(error)

    def add_process(self, process: Process) -> None:
        """Note a command that runs in the background."""
        self._processes.append(process)

    def end(self) -> None:
        """End all of it, see `Remains`."""
        for process in self._processes:
            process.kill()
        for tree in self._trees:
            tree.end(GRACE, running=False)
        markers = "\n".join(self._markers)
        if self._shell and not self._has_no_process(markers):
            self._processes_of(Quarry(markers, type(self._shell.dialect))).end(GRACE, running=False)

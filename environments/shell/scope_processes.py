"""Processes left running by the commands of one scope, ended with the scope."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from environments.errors import TerminalError
from environments.loop import run
from environments.process import GRACE
from environments.shell.kill import ProcessSelector
from environments.shell.lifecycle import call_backend

if TYPE_CHECKING:
    from environments.shell.kill import ProcessTree
    from environments.shell.pool import Shells
    from environments.shell.process import ShellProcess
    from environments.shell.run import Running
    from environments.shell.shell import Shell


class ScopeProcesses:
    """Records, for one environment, how to find the processes left by a scope's commands.

    Args:
        shells: The shells of the environment.
    """

    def __init__(self, shells: Shells) -> None:
        self._shells = weakref.proxy(shells)
        self._may_have_processes = shells.env.new_process_check(None)
        self._shell: Shell | None = None
        self._markers: list[str] = []
        self._trees: list[ProcessTree] = []
        self._processes: list[ShellProcess] = []

    async def add_command(self, running: Running) -> None:
        """Record an ended command. Holders of its keepalive pipe are found now: the next command has another."""
        shell = self._shell = running.shell
        self._markers.append(running.marker)
        if shell.has_leftovers:
            tree = self._shells.control.tree(ProcessSelector(running.marker, type(shell.dialect), shell.pid))
            try:
                if await tree.look():
                    self._trees.append(tree)
            except TerminalError as error:  # the marker is searched again at the end
                self._shells.life.postpone(error)

    def add_process(self, process: ShellProcess) -> None:
        """Record a background command."""
        self._processes.append(process)

    def end(self) -> None:
        """End all recorded processes, see `CancelScope.scope_processes`."""
        run(lambda _: self._end())

    async def _end(self) -> None:
        for process in self._processes:
            await process.ended_by_us()
        for tree in self._trees:
            await tree.end(GRACE, running=False)
        markers = "\n".join(self._markers)
        if self._shell is None or (self._may_have_processes and not await self._may_have_processes(markers)):
            return
        if not await call_backend(self._shells.env.has_no_process, markers, ()):
            tree = self._shells.control.tree(ProcessSelector(markers, type(self._shell.dialect)))
            if await tree.look():  # usually no process is left, as one look shows
                await tree.end(GRACE, running=False)

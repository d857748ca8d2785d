"""Commands on this machine, in a sandbox."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from environments.local.bubblewrap.mounts import Mounts
from environments.local.bubblewrap.refusal import find_program
from environments.local.bubblewrap.sandbox import Sandbox
from environments.local.bubblewrap.stream import SandboxStream
from environments.local.bubblewrap.variables import handed_in
from environments.local.settings import LocalSettings
from environments.settings import EnvironmentSettings
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal

_LOSS = "its sandbox has ended; the first process in it was killed"


class SandboxedEnvironment(PersistentShellEnvironment):
    """Runs commands on this machine as this user, where they see only what they need.

    Files and tool calls go the way they go to another machine: what runs in this process could be led by a link that
    a script has made to a file that the sandbox hides.
    """

    backend = "local"
    settings_class = LocalSettings

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._mounts = Mounts.of(settings)
        self._sandbox: Sandbox | None = None
        super().__init__(settings)

    def start_target(self) -> None:
        """Put up the sandbox, see `PersistentShellEnvironment`."""
        self.stop_target()  # what a loss has left
        mounts = self._mounts
        network = ["--share-net"] if mounts.network else []
        options = ["--unshare-all", *network, "--cap-drop", "ALL", "--new-session", "--as-pid-1", *mounts.options()]
        variables = handed_in(mounts.home)
        program = find_program([shown.source for shown in mounts.writable])
        self._sandbox = Sandbox(program, options, variables, self._shells.marker(0), sys.executable)

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the sandbox, see `StreamOpener`."""
        sandbox = self._sandbox
        if sandbox is None or sandbox.is_gone:
            raise self.life.lost(_LOSS)
        return SandboxStream(sandbox, argv, terminal)

    @property
    def stop_ends_all(self) -> bool:
        """All processes end with their namespace, and our files were in memory."""
        return True

    def target_loss(self) -> str | None:
        """Say whether the sandbox has ended, see `PersistentShellEnvironment`."""
        sandbox = self._sandbox
        return _LOSS if sandbox and sandbox.is_gone else None

    def stop_target(self) -> None:
        """End the sandbox, see `PersistentShellEnvironment`."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox:
            sandbox.end()

"""Commands on this machine, in a sandbox that bubblewrap makes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from environments.bubblewrap.mounts import Mounts, passed_variables
from environments.bubblewrap.sandbox import Sandbox, find_program, trial
from environments.bubblewrap.settings import BubblewrapSettings
from environments.bubblewrap.stream import SandboxStream
from environments.errors import UnsupportedError
from environments.settings import EnvironmentSettings
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal
from environments.target import Address, Target, this_machine

_LOSS = "its sandbox has ended; the first process in it was killed"


class BubblewrapEnvironment(PersistentShellEnvironment):
    """Runs commands on this machine as this user, in namespaces that show the system and the working directory alone.

    Files and tool calls go through a shell, as on another machine: this process could be led by a link that a script
    has made to a file that the sandbox hides.
    """

    backend = "bubblewrap"
    settings_class = BubblewrapSettings
    proxies_network = True
    more_pythons = (sys.executable,)

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._mounts = Mounts.of(settings)
        self._sandbox: Sandbox | None = None
        super().__init__(settings)

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Start an empty sandbox and end it, see `BaseEnvironment`."""
        return trial()

    def start_target(self) -> None:
        """Start the sandbox, see `PersistentShellEnvironment`."""
        self.stop_target()  # the rest of one that was lost
        mounts = self._mounts
        network = ["--share-net"] if mounts.network else []
        options = ["--unshare-all", *network, "--cap-drop", "ALL", "--new-session", "--as-pid-1", *mounts.options()]
        program = find_program([path.source for path in mounts.writable])
        self._sandbox = Sandbox(program, options, passed_variables(), self.shells.markers("0/"))

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the sandbox, see `PersistentShellEnvironment`."""
        return SandboxStream(self._running(), argv, terminal)

    def _running(self) -> Sandbox:
        sandbox = self._sandbox
        if sandbox is None or sandbox.is_gone:
            raise self.life.lost(_LOSS)
        return sandbox

    def describe_target(self, cwd: str) -> Target:
        """Describe the sandbox by its first process, as this machine counts, see `PersistentShellEnvironment`.

        Only root can join the namespaces of its file system from outside. Nothing then keeps root from what the sandbox
        hides.
        """
        pid, here = str(self._running().pid), this_machine()
        joining = ("nsenter", "--target", pid, "--all", f"--wdns={cwd}", self.capabilities.shell)
        return Target(self.backend, "sandbox", pid, "", here, joining if os.geteuid() == 0 else ())

    def find_address(self, port: int) -> Address:
        """Return the address of a port of the sandbox, see `BaseEnvironment.address`."""
        self.ensure_started()
        if not self._mounts.network:
            raise UnsupportedError(
                f"backend 'bubblewrap': the sandbox has no network, so that its port {port} cannot be reached; set "
                "network (TERMINAL_BUBBLEWRAP_NETWORK)"
            )
        return Address("127.0.0.1", port)

    @property
    def stop_ends_all(self) -> bool:
        """All processes end with their namespace, and files of ours were in memory."""
        return True

    def target_loss(self) -> str | None:
        """Return the reason if the sandbox has ended, see `PersistentShellEnvironment`."""
        sandbox = self._sandbox
        return _LOSS if sandbox and sandbox.is_gone else None

    def stop_target(self) -> None:
        """End the sandbox, see `PersistentShellEnvironment`."""
        if self._sandbox:
            try:
                self._sandbox.end()
            finally:  # one that hangs in the kernel keeps no other from being started
                self._sandbox = None

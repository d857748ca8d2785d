"""Commands on this machine, in a sandbox."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from environments.errors import UnsupportedError
from environments.bubblewrap.mounts import Mounts
from environments.bubblewrap.refusal import find_program
from environments.bubblewrap.sandbox import Sandbox
from environments.bubblewrap.stream import SandboxStream
from environments.bubblewrap.variables import handed_in
from environments.local.settings import LocalSettings
from environments.settings import EnvironmentSettings
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal
from environments.target import Address, Target, this_machine

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
        self._sandbox = Sandbox(program, options, variables, self.shells.markers("0/"), sys.executable)

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the sandbox, see `StreamOpener`."""
        return SandboxStream(self._running(), argv, terminal)

    def _running(self) -> Sandbox:
        sandbox = self._sandbox
        if sandbox is None or sandbox.is_gone:
            raise self.life.lost(_LOSS)
        return sandbox

    def describe_target(self, cwd: str) -> Target:
        """Say which sandbox it is, see `PersistentShellEnvironment`: by its first process, as this machine counts.

        Only root can join the namespaces of its file system from outside. Nothing then keeps them from what the sandbox
        keeps from its commands.
        """
        pid, here = str(self._running().pid), this_machine()
        joining = ("nsenter", "--target", pid, "--all", f"--wdns={cwd}", self.capabilities.shell)
        return Target("local", "sandbox", pid, "bubblewrap", here, joining if os.geteuid() == 0 else ())

    def find_address(self, port: int) -> Address:
        """Return where a port of the sandbox can be reached, see `BaseEnvironment.address`."""
        self.ensure_started()
        if not LocalSettings.of(self.settings).sandbox_network:
            raise UnsupportedError(
                f"backend 'local': the sandbox has no network, so that its port {port} cannot be reached; set "
                "local_sandbox_network (TERMINAL_LOCAL_SANDBOX_NETWORK)"
            )
        return Address("127.0.0.1", port)

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

"""Commands on this machine, in a bubblewrap sandbox."""

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
    """Runs commands on this machine as this user, in namespaces that contain only the system and the working directory.

    Files and tool calls go through a shell, as on another machine: a link made by a script could lead this process to a
    hidden file.
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
        return trial()

    def start_target(self) -> None:
        self.stop_target()  # the rest of a lost sandbox
        mounts = self._mounts
        network = ["--share-net"] if mounts.network else []
        options = ["--unshare-all", *network, "--cap-drop", "ALL", "--new-session", "--as-pid-1", *mounts.options()]
        program = find_program([path.source for path in mounts.writable])
        self._sandbox = Sandbox(program, options, passed_variables(), self.shells.markers("0/"))

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        return SandboxStream(self._live_sandbox(), argv, terminal)

    def _live_sandbox(self) -> Sandbox:
        sandbox = self._sandbox
        if sandbox is None or sandbox.has_ended:
            raise self.life.lost(_LOSS)
        return sandbox

    def describe_target(self, cwd: str) -> Target:
        # The process id is that of the first process, as seen from this machine. Only root can join the sandbox's mount
        # namespace from outside, and sees hidden files there.
        pid, here = str(self._live_sandbox().pid), this_machine()
        joining = ("nsenter", "--target", pid, "--all", f"--wdns={cwd}", self.capabilities.shell)
        return Target(self.backend, "sandbox", pid, "", here, joining if os.geteuid() == 0 else ())

    def find_address(self, port: int) -> Address:
        self.ensure_started()
        if not self._mounts.network:
            raise UnsupportedError(
                f"backend 'bubblewrap': port {port} cannot be reached, as the sandbox has no network; set network "
                "(TERMINAL_BUBBLEWRAP_NETWORK)"
            )
        return Address("127.0.0.1", port)

    @property
    def stop_ends_all(self) -> bool:
        return True  # all processes end with their namespace, and our files were in memory

    def target_loss(self) -> str | None:
        sandbox = self._sandbox
        return _LOSS if sandbox and sandbox.has_ended else None

    def stop_target(self) -> None:
        if self._sandbox:
            try:
                self._sandbox.end()
            finally:  # also after a failure: a sandbox that hangs in the kernel must not block the next start
                self._sandbox = None

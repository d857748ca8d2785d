"""A backend in one file: commands in namespaces of their own on this machine, made by `unshare` of util-linux.

Commands see this machine's files, but have their own /tmp, process table and network, without an interface. Any user
may make namespaces, where the kernel allows user namespaces. docs/adding-a-backend.md explains this file.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from environments import BackendSettings, EnvironmentSettings, EnvironmentStartError
from environments.shell.child_stream import ChildStream
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal

NAMESPACES = ("--mount", "--pid", "--net")
# The shell is the first process in the PID namespace: it reaps orphans, and when it ends the kernel kills all others.
# The shell ends at the end of its input, so that no process outlives this one, also after a SIGKILL.
_FIRST_PROCESS = """\
mount -t tmpfs -o "size=$1" tmpfs /tmp && exec 3<&0 && echo ready && { cat <&3 & wait; }"""
_LAST_BREATH = 0.5
"""Seconds for the kernel to end the namespaces after their last command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnshareSettings(BackendSettings):
    """The settings of this backend alone. The backend has no limits, so that `container_*` is refused."""

    prefix: ClassVar[str] = "unshare_"

    tmp_size: str = "50%"
    """The size of `/tmp` in the format of `mount`: `512m`, or a share of this machine's memory."""


class UnshareEnvironment(PersistentShellEnvironment):
    """Runs commands in new mount, process and network namespaces."""

    backend = "unshare"
    settings_class = UnshareSettings

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._holder: subprocess.Popen[bytes] | None = None
        self._pid = 0

    def start_target(self) -> None:
        self.stop_target()  # the rest of lost namespaces
        size = UnshareSettings.of(self.settings).tmp_size
        argv = ["unshare", "--map-root-user", *NAMESPACES, "--mount-proc", "--fork", "--kill-child"]
        pipe = subprocess.PIPE
        try:
            self._holder = subprocess.Popen(
                [*argv, "sh", "-c", _FIRST_PROCESS, "sh", size], stdin=pipe, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            raise EnvironmentStartError(f"backend 'unshare' needs `unshare` of util-linux: {error.strerror}") from error
        assert self._holder.stdout and self._holder.stderr
        if self._holder.stdout.readline() != b"ready\n":
            why = self._holder.stderr.read().decode(errors="replace").strip()
            raise EnvironmentStartError(f"backend 'unshare' cannot make namespaces here: {why}")
        self._pid = int(Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text())

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        enter = ["nsenter", f"--target={self._pid}", "--user", "--preserve-credentials", *NAMESPACES]
        return ChildStream([*enter, *argv], terminal=terminal)

    def target_loss(self) -> str | None:
        try:
            assert self._holder
            code = self._holder.wait(_LAST_BREATH)
        except subprocess.TimeoutExpired:
            return None
        return f"the first process of its namespaces ended with exit code {code}"

    def stop_target(self) -> None:
        holder, self._holder = self._holder, None
        if holder:
            holder.kill()  # the kernel, by --kill-child, then kills all other processes
            holder.communicate()

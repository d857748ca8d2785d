"""Commands in an Apptainer or Singularity instance."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from environments.default_limits import UnheldLimitsError, going_without
from environments.errors import EnvironmentStartError
from environments.owner import Orphan
from environments.settings import EnvironmentSettings
from environments.shared_claim import SharedClaim
from environments.shell.child_stream import ChildStream
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal
from environments.singularity.client import Client
from environments.singularity.image import resolve_image
from environments.singularity.instance import Instance, find_orphans, orphans, remove
from environments.singularity.options import limits, memory_kills, start_options
from environments.singularity.overlay import kept_key
from environments.singularity.running import Running
from environments.singularity.settings import SingularitySettings

_AT_HOME = """\
{ mkdir -p "$HOME" && cd "$HOME" || cd /tmp || cd /; } 2>/dev/null
exec "$@"
"""
"""A user's home is in the container by name only. Where it can be made, that is where tools keep their files."""

LEAVE_LIMIT = 0.3
"""Seconds a shell has to end by itself when its stream is closed."""


class _ExecStream(ChildStream):
    """A stream to `exec instance://`."""

    def close(self) -> None:
        """Give up the stream, see `Stream.close`.

        The client is killed only if it does not leave when its shell reads end of file: what it leaves unreaped in
        the instance falls to this machine's init, and until that has reaped it the instance cannot end.
        """
        if not self._terminal and self._write_lock.acquire(blocking=False):  # else somebody waits in a write
            if self._stdin >= 0:
                os.close(self._stdin)
                self._stdin = -1
            self._write_lock.release()
            self.exit_code(LEAVE_LIMIT)
        super().close()


class SingularityEnvironment(PersistentShellEnvironment):
    """Runs commands in an instance of its own, in which each warm shell is one `exec instance://`."""

    backend = "singularity"
    settings_class = SingularitySettings

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._client: Client | None = None
        self._claim: SharedClaim[Running] | None = None
        self._began = True
        self._instance: Instance | None = None
        self._kills = 0

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Look for the program, see `BaseEnvironment`."""
        client = Client.found()
        return f"{client.run('--version').text.strip()} at {client.program}"

    @classmethod
    def find_orphans(cls) -> Iterable[Orphan]:
        """Find the instances whose owner has ended, see `BaseEnvironment`."""
        return find_orphans()

    @property
    def is_alone(self) -> bool:
        """Whether this is the first environment in the instance, see `PersistentShellEnvironment.is_alone`.

        The instance always has process ids of its own.
        """
        return self._began

    @property
    def enforced_limits(self) -> frozenset[str]:
        """The limits that are set: an instance that cannot have one of them does not start."""
        disk = ["container_disk"] if self.settings.container_disk else []
        return frozenset([*limits(self.settings), *disk])

    def start_target(self) -> None:
        """Start an instance, see `PersistentShellEnvironment`, or take up that of others of this process."""
        while True:
            self.stop_target()  # what a loss has left
            try:
                return self._start()
            except UnheldLimitsError as error:
                self.settings = going_without(self.settings, error)

    def _start(self) -> None:
        options = start_options(self.settings)
        self._client = client = Client.found()
        image = resolve_image(client, SingularitySettings.of(self.settings).image)
        if self.settings.container_persistent:
            self._instance = self._shared(client, options, image)
        else:
            self._instance = Running.begun(client, self.settings, options, image).instance
        self._kills = self._memory_kills()  # those of others, where it is shared

    def _shared(self, client: Client, options: Sequence[str], image: str) -> Instance:
        """Return an instance over what is kept for the task: that of others in this process, or a new one."""
        self._claim = claim = SharedClaim[Running](f"singularity-{kept_key(self.settings, image)}")

        def begin(others: Running | None) -> Running:
            self._began = others is None
            if others and others.instance.running:
                if others.made_of != (image, *options):
                    raise self._in_use()  # over the same files, but not what this one asks for
                return others
            for orphan in orphans():  # one of them may have the kept files open
                remove(orphan)
            if others:
                others.instance.end()
            return Running.begun(client, self.settings, options, image)

        running = claim.join(begin)
        if running is None:
            raise self._in_use()
        return running.instance

    def _in_use(self) -> EnvironmentStartError:
        return EnvironmentStartError(
            f"backend 'singularity': the kept files of task {self.settings.task_id!r} are in use by another "
            "environment; give this one another task_id, or switch TERMINAL_CONTAINER_PERSISTENT off"
        )

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the instance, see `StreamOpener`."""
        if loss := self.target_loss():
            raise self.life.lost(loss)
        assert self._client and self._instance
        wrapped = [*self._client.exec_argv(self._instance.name), "/bin/sh", "-c", _AT_HOME, "sh", *argv]
        return _ExecStream(wrapped, terminal=terminal, env=self._client.environment, cwd="/")

    def target_loss(self) -> str | None:
        """Say whether the instance has ended, see `PersistentShellEnvironment`."""
        if self._instance and not self._instance.running:
            return f"instance {self._instance.name} has ended; its first process was killed"
        return None

    def why_killed(self) -> str | None:
        """Say so if the kernel has ended a process for its memory, see `BaseEnvironment`."""
        limit, found = self.settings.container_memory, self._memory_kills()
        if found <= self._kills:
            return None
        self._kills = found
        return (
            f"the instance ran out of memory (container_memory is {limit} MB), and a process was ended; allow it more"
        )

    def _memory_kills(self) -> int:
        try:
            return memory_kills(self._instance.pid) if self.settings.container_memory and self._instance else 0
        except OSError:  # the instance has ended
            return 0

    def stop_target(self) -> None:
        """End the instance, if no other environment of this process has it, see `PersistentShellEnvironment`."""
        instance, self._instance, self._kills = self._instance, None, 0
        claim, self._claim = self._claim, None
        if claim:
            claim.leave(lambda running: running.instance.end())
        elif instance:
            instance.end()

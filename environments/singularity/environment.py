"""Commands in an Apptainer or Singularity instance."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence

from environments.errors import EnvironmentStartError, TerminalError
from environments.owner import Orphan
from environments.settings import EnvironmentSettings
from environments.shell.child_stream import ChildStream
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal
from environments.singularity.client import Client
from environments.singularity.image import resolve_image
from environments.singularity.instance import Instance, find_orphans, new_name, orphans, records, remove
from environments.singularity.options import (
    limits,
    memory_kills,
    refusal,
    refuse_ignored_binds,
    refuse_limits_without_effect,
    start_options,
)
from environments.singularity.overlay import Overlay
from environments.singularity.settings import SingularitySettings
from environments.starting import current_start, unstoppable

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
        self._overlay: Overlay | None = None
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
        """Whether the instance has process ids of its own, see `PersistentShellEnvironment.is_alone`: always."""
        return True

    @property
    def enforced_limits(self) -> frozenset[str]:
        """The limits that are set: an instance that cannot have one of them does not start."""
        disk = ["container_disk"] if self.settings.container_disk else []
        return frozenset([*limits(self.settings), *disk])

    def start_target(self) -> None:
        """Start an instance, see `PersistentShellEnvironment`."""
        self.stop_target()  # what a loss has left
        options = start_options(self.settings)
        self._client = client = Client.found()
        image = resolve_image(client, SingularitySettings.of(self.settings).image)
        if self.settings.container_persistent:
            for orphan in orphans():  # one of them may have the kept files open
                remove(orphan)
        self._overlay = Overlay(client, self.settings, image)
        name = new_name()
        current_start().tell("starting an instance")
        try:
            self._instance = self._start_instance(client, name, [*options, *self._overlay.options], image)
        except BaseException:
            with unstoppable():
                with contextlib.suppress(TerminalError):
                    remove(name)
                self.stop_target()
            raise
        self._overlay.mounted()

    def _start_instance(self, client: Client, name: str, options: Sequence[str], image: str) -> Instance:
        outcome = client.run("--quiet", "instance", "start", *options, image, name)
        found = records(client, name) if outcome.ok else []
        if not found:
            start_error = EnvironmentStartError(f"backend 'singularity' cannot start {image}: {outcome.reason}")
            raise refusal(self.settings, outcome.text) or start_error
        refuse_ignored_binds(self.settings, outcome.text)
        refuse_limits_without_effect(self.settings, found[0].pid)
        return Instance(client, found[0])

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
        limit, instance = self.settings.container_memory, self._instance
        try:
            found = memory_kills(instance.pid) if limit and instance else 0
        except OSError:  # the instance has ended
            return None
        if found <= self._kills:
            return None
        self._kills = found
        return (
            f"the instance ran out of memory (container_memory is {limit} MB), and a process was ended; allow it more"
        )

    def stop_target(self) -> None:
        """End the instance, see `PersistentShellEnvironment`."""
        instance, self._instance, self._kills = self._instance, None, 0
        overlay, self._overlay = self._overlay, None
        try:
            if instance:
                instance.end()
        finally:
            if overlay:
                overlay.release()

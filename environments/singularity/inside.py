"""Commands in an Apptainer or Singularity instance, whoever has started it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from environments.errors import TerminalError, UnsupportedError
from environments.settings import EnvironmentSettings
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.host import host_of
from environments.shell.stream import Stream, Terminal
from environments.singularity.client import Client
from environments.singularity.instance import Instance
from environments.singularity.machine import Machine
from environments.singularity.other_machine import OtherMachine
from environments.singularity.settings import SingularitySettings
from environments.singularity.this_machine import THIS_MACHINE
from environments.starting import StartLimits
from environments.target import Address, Target

_AT_HOME = """\
{ mkdir -p "$HOME" && cd "$HOME" || cd /tmp || cd /; } 2>/dev/null
exec "$@"
"""
"""A user's home is in the container by name only. Where it can be made, that is where tools keep their files."""


class InstanceEnvironment(PersistentShellEnvironment):
    """Runs commands in an instance, in which each warm shell is one `exec instance://`."""

    backend = "singularity"
    settings_class = SingularitySettings
    ends_with_program = True

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._machine = machine_of(settings)
        self.max_streams = self._machine.max_streams
        super().__init__(settings)
        self._client: Client | None = None
        self._instance: Instance | None = None

    @property
    def link_may_drop(self) -> bool:
        """Whether the instance is on a host that is reached over a link, see `PersistentShellEnvironment`."""
        return self._machine is not THIS_MACHINE

    @classmethod
    def start_limits(cls, settings: EnvironmentSettings) -> StartLimits:
        """Return how many instances to start at the same time on a machine, see `BaseEnvironment`."""
        return replace(super().start_limits(settings), at_once=4)

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Look for the program, see `BaseEnvironment`."""
        with reached(settings) as machine:
            client = Client.found(machine)
            where = f" on {machine.place}" if machine.place else ""
            return f"{client.run('--version').text.strip()} at {client.program}{where}"

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the instance, see `StreamOpener`."""
        if loss := self.instance_loss():
            raise self.life.lost(loss)
        client, instance = self._there()
        wrapped = [*client.exec_argv(instance.name), "/bin/sh", "-c", _AT_HOME, "sh", *argv]
        return self._machine.open_stream(wrapped, terminal)

    def target_loss(self) -> str | None:
        """Say whether the instance has ended, or the link to its machine, see `PersistentShellEnvironment`."""
        if loss := self._machine.loss():
            return loss
        try:
            return self.instance_loss()
        except TerminalError as error:  # that machine cannot be reached
            return str(error)

    def instance_loss(self) -> str | None:
        """Say whether the instance has ended."""
        instance = self._instance  # once, as another thread may take it away
        if instance and not instance.running:
            return f"instance {instance.name} has ended; its first process was killed"
        return None

    def describe_target(self, cwd: str) -> Target:
        """Say which instance it is, see `PersistentShellEnvironment`."""
        client, instance = self._there()
        # A login over SSH may have less on its PATH.
        program = client.program if self._machine.place else PurePosixPath(client.program).name
        enter = self._machine.way_in((program, "shell", "--pwd", cwd, f"instance://{instance.name}"))
        return Target("singularity", "instance", instance.name, instance.name, self._machine.name, enter)

    def find_address(self, port: int) -> Address:
        """Return where a port of the instance can be reached, see `BaseEnvironment.address`.

        An instance shares its machine's network, unless it was started with one of its own.
        """
        self.ensure_started()
        _, instance = self._there()
        if not instance.has_own_network:
            return self._machine.address("127.0.0.1", port)
        if instance.ip:
            return self._machine.address(instance.ip, port)
        raise UnsupportedError(
            f"backend 'singularity': instance {instance.name} has no network that its machine is on, so that no port "
            "of it can be reached; leave singularity_network on"
        )

    def _there(self) -> tuple[Client, Instance]:
        client, instance = self._client, self._instance
        if client is None or instance is None:
            raise self.life.lost("there is no instance")
        return client, instance


def machine_of(settings: EnvironmentSettings) -> Machine:
    """Return the machine that settings lead to, which may have to be reached first."""
    host = host_of(settings)
    return OtherMachine(host) if host else THIS_MACHINE


@contextlib.contextmanager
def reached(settings: EnvironmentSettings) -> Iterator[Machine]:
    """Reach the machine that settings lead to, for as long as the block lasts.

    Raises:
        EnvironmentStartError: It cannot be reached.
    """
    machine = machine_of(settings)
    try:
        machine.reach()
        yield machine
    finally:
        machine.leave()

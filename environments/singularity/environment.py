"""Commands in an Apptainer or Singularity instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from environments.claim import SharedClaim
from environments.errors import EnvironmentStartError, TerminalError, UnsupportedError
from environments.found_target import FoundTarget
from environments.legacy import UnheldLimitsError, going_without
from environments.settings import EnvironmentSettings
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal
from environments.singularity.client import Client, claim_name, resolve_image
from environments.singularity.instance import Instance, orphans, records, remove
from environments.singularity.listing import list_targets
from environments.singularity.machine import machine_of, reached
from environments.singularity.options import kept_key, limits, start_options
from environments.singularity.settings import SingularitySettings
from environments.sources import load_settings
from environments.starting import StartLimits, current_start
from environments.target import Address, Target


class SingularityEnvironment(PersistentShellEnvironment):
    """Runs commands in an instance, in which each warm shell is one `exec instance://`.

    The instance is one of its own, which ends with the environment; with `container_persistent` its files are kept,
    and environments of this process share it. Or it is another's, which the settings name: then it is looked up
    whenever it has to be joined, also after it was started anew, and goes on behind `cleanup`.
    """

    backend = "singularity"
    settings_class = SingularitySettings
    has_watchdog = True

    proxies_network = True

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._machine = machine_of(settings)
        self.max_streams = self._machine.host.max_streams
        super().__init__(settings)
        self._joined = SingularitySettings.of(settings).instance
        """The name of another's instance; None for one of its own."""
        self._client: Client | None = None
        self._instance: Instance | None = None
        self._claim: SharedClaim[Instance] | None = None
        self._is_first = self._joined is None
        self._kills = 0

    @classmethod
    def start_limits(cls, settings: EnvironmentSettings) -> StartLimits:
        """Return how many instances to start at the same time on a machine, see `BaseEnvironment`."""
        return replace(super().start_limits(settings), at_once=4)

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Look for the program, see `BaseEnvironment`."""
        with reached(settings) as machine:
            client = Client.found(machine)
            return f"{client.run('--version', is_short=True).text.strip()} at {client.program}{machine.where}"

    @classmethod
    def list_targets(cls) -> Iterator[FoundTarget]:
        """Go through the instances, and what is kept of earlier ones, see `BaseEnvironment`."""
        settings = load_settings("singularity")
        if settings.over:
            yield from list_targets(settings)
        yield from list_targets(replace(settings, over=None, own_over=None))

    # Properties of the target.

    @property
    def link_may_drop(self) -> bool:
        """Whether the instance is on a host that is reached over a link, see `PersistentShellEnvironment`."""
        return bool(self._machine.place)

    @property
    def owns_all_processes(self) -> bool:
        """Whether this is the first environment in an instance of its own, see `PersistentShellEnvironment`.

        An instance always has process ids of its own.
        """
        return self._is_first

    @property
    def stop_ends_all(self) -> bool:
        """Whether the instance, with its processes and all files written in it, is gone when it is stopped."""
        if self._joined or self.settings.container_persistent:
            return False
        return not (SingularitySettings.of(self.settings).binds and self.has_scratch)

    @property
    def enforced_limits(self) -> frozenset[str]:
        """The limits that are set: an instance that cannot have one of them does not start."""
        disk = ["container_disk"] if self.settings.container_disk else []
        return frozenset() if self._joined else frozenset([*limits(self.settings), *disk])

    # Its life.

    def start_target(self) -> None:
        """Start or join an instance, see `PersistentShellEnvironment`."""
        instance = self._instance
        if self._machine.reach() and instance and instance.is_running(self._machine):
            return  # only the link to it was lost
        while True:
            self._end_instance()  # the rest of one that was lost
            try:
                self._begin()
            except UnheldLimitsError as error:
                self.settings = going_without(self.settings, error)
            else:
                return

    def _begin(self) -> None:
        self._client = client = Client.found(self._machine)
        if self._joined:
            instance = self._join(client, self._joined)
        else:
            options = start_options(self.settings, self._machine)
            image = resolve_image(client, SingularitySettings.of(self.settings).image)
            start = self._share if self.settings.container_persistent else Instance.started
            instance = start(client, self.settings, options, image)
        self._instance = instance
        self._kills = self._memory_kills()  # those of others, if it is shared
        self.observation.target = ("instance", instance.name)

    def _join(self, client: Client, name: str) -> Instance:
        current_start().report(f"joining instance {name}")
        for record in records(client, name):
            instance = Instance.of(client, record)
            if instance.processes:
                return instance
        program = PurePosixPath(client.program).name
        raise EnvironmentStartError(
            f"backend 'singularity': no instance {name} of this user runs that could be joined; `{program} instance "
            f"list` lists those there are, and `{program} instance start IMAGE {name}` starts one"
        )

    def _share(self, client: Client, settings: EnvironmentSettings, options: Sequence[str], image: str) -> Instance:
        """Return an instance over the kept files of the task: that of others in this process, or a new one."""
        self._claim = claim = SharedClaim[Instance](claim_name(self._machine, kept_key(settings, image)))

        def begin(others: Instance | None) -> Instance:
            self._is_first = others is None
            if others and others.is_running(self._machine):
                if others.made_of != (image, *options):
                    raise self._in_use()  # over the same files, but not what this one asks for
                return others
            for orphan in orphans(self._machine):  # one of them may have the kept files open
                remove(orphan, self._machine)
            if others:
                others.end(client)
            return Instance.started(client, settings, options, image)

        instance = claim.join(begin)
        if instance is None:
            raise self._in_use()
        return instance

    def _in_use(self) -> EnvironmentStartError:
        return EnvironmentStartError(
            f"backend 'singularity': the kept files of task {self.settings.task_id!r} are in use by another "
            "environment; give this one another task_id, or switch TERMINAL_CONTAINER_PERSISTENT off"
        )

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the instance, see `PersistentShellEnvironment`."""
        client, instance = self._running()
        return instance.open_stream(client, argv, terminal)

    def _running(self) -> tuple[Client, Instance]:
        client, instance = self._client, self._instance
        if client is None or instance is None:
            raise self.life.lost("there is no instance")
        return client, instance

    def target_loss(self) -> str | None:
        """Return the reason if the instance has ended, or its machine is lost, see `PersistentShellEnvironment`."""
        if loss := self._machine.loss():
            return loss
        instance = self._instance  # once, as another thread may take it away
        try:
            if instance is None or instance.is_running(self._machine):
                return None
        except TerminalError as error:  # that machine cannot be reached
            return str(error)
        how = ", or was started anew" if self._joined else "; its first process was killed"
        return f"instance {instance.name} has ended{how}"

    def why_killed(self) -> str | None:
        """Return the reason if the kernel has ended a process for its memory, see `BaseEnvironment`."""
        found, before = self._memory_kills(), self._kills
        self._kills = max(found, before)
        if found <= before:
            return None
        if self._joined:
            return f"instance {self._joined} ran out of memory, of which it has a limit of its own; a process was ended"
        return (
            f"the instance ran out of memory (container_memory is {self.settings.container_memory} MB), and a process "
            "was ended; allow it more"
        )

    def _memory_kills(self) -> int:
        instance = self._instance if self._joined or self.settings.container_memory else None
        try:
            return instance.memory_kills(self._machine) if instance else 0
        except TerminalError:  # its machine cannot be reached
            return 0

    def stop_target(self) -> None:
        """End an instance of its own if no other environment of this process has it; leave another's running."""
        try:
            self._end_instance()
        finally:
            self._machine.host.stop_target()

    def _end_instance(self) -> None:
        client, instance, claim = self._client, self._instance, self._claim
        try:
            if client and claim:
                claim.leave(lambda shared: shared.end(client))
            elif client and instance and not self._joined:
                instance.end(client)
        finally:  # one that hangs in the kernel keeps no other from being started
            self._instance = self._claim = None

    # Where it is.

    def describe_target(self, cwd: str) -> Target:
        """Describe the instance, see `PersistentShellEnvironment`."""
        client, instance = self._running()
        # A login over SSH may have less on its PATH.
        program = client.program if self._machine.place else PurePosixPath(client.program).name
        enter = self._machine.host.login_command((program, "shell", "--pwd", cwd, f"instance://{instance.name}"))
        return Target("singularity", "instance", instance.name, instance.name, self._machine.name, enter)

    def find_address(self, port: int) -> Address:
        """Return the address of a port of the instance, see `BaseEnvironment.address`.

        An instance shares its machine's network, unless it was started with one of its own.
        """
        self.ensure_started()
        _, instance = self._running()
        host = instance.record.ip if instance.has_own_network else "127.0.0.1"
        if host:
            return self._machine.host.forwarded(host, port)
        raise UnsupportedError(
            f"backend 'singularity': instance {instance.name} has no network that its machine is on, so that no port "
            "of it can be reached; leave network on"
        )

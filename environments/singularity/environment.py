"""Commands in an Apptainer or Singularity instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from environments.claim import SharedClaim
from environments.errors import EnvironmentStartError, TerminalError, UnsupportedError
from environments.found_target import FoundTarget
from environments.legacy import UnenforcedLimitsError, without_unenforced_limits
from environments.settings import EnvironmentSettings
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal
from environments.singularity.client import Client, claim_name, resolve_image
from environments.singularity.instance import Instance, orphans, records, remove
from environments.singularity.listing import list_targets
from environments.singularity.machine import connected, machine_of
from environments.singularity.options import kept_key, limits, start_options
from environments.singularity.settings import SingularitySettings
from environments.sources import load_settings
from environments.starting import StartLimits, current_start
from environments.target import Address, Target


class SingularityEnvironment(PersistentShellEnvironment):
    """Runs commands in an instance. Each warm shell is one `exec instance://`.

    A new instance ends with its environment. With `container_persistent`, its files are kept, and the environments of
    this process share the instance. Another program's instance, named by the setting `instance`, is looked up at each
    join, also after a restart, and keeps running after `cleanup`.
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
        """Name of another program's instance; None for a new instance."""
        self._client: Client | None = None
        self._instance: Instance | None = None
        self._claim: SharedClaim[Instance] | None = None
        self._is_first = self._joined is None
        self._kills = 0

    @classmethod
    def start_limits(cls, settings: EnvironmentSettings) -> StartLimits:
        return replace(super().start_limits(settings), at_once=4)

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        with connected(settings) as machine:
            client = Client.find(machine)
            return f"{client.run('--version', is_short=True).text.strip()} at {client.program}{machine.where}"

    @classmethod
    def list_targets(cls) -> Iterator[FoundTarget]:
        settings = load_settings("singularity")
        if settings.over:
            yield from list_targets(settings)
        yield from list_targets(replace(settings, over=None, own_over=None))

    # Properties of the target.

    @property
    def link_may_drop(self) -> bool:
        return bool(self._machine.place)

    @property
    def owns_all_processes(self) -> bool:
        # An instance has process ids of its own.
        return self._is_first

    @property
    def stop_ends_all(self) -> bool:
        # Binds outlive the instance.
        if self._joined or self.settings.container_persistent:
            return False
        return not (SingularitySettings.of(self.settings).binds and self.has_scratch)

    @property
    def enforced_limits(self) -> frozenset[str]:
        # An instance starts with all of its limits, or not at all.
        disk = ["container_disk"] if self.settings.container_disk else []
        return frozenset() if self._joined else frozenset([*limits(self.settings), *disk])

    # Its life.

    def start_target(self) -> None:
        instance = self._instance
        if self._machine.reach() and instance and instance.is_running(self._machine):
            return  # only the link to the instance was lost
        while True:
            self._end_instance()  # the rest of a lost instance
            try:
                self._start_or_join()
            except UnenforcedLimitsError as error:
                self.settings = without_unenforced_limits(self.settings, error)
            else:
                return

    def _start_or_join(self) -> None:
        self._client = client = Client.find(self._machine)
        if self._joined:
            instance = self._join(client, self._joined)
        else:
            options = start_options(self.settings, self._machine)
            image = resolve_image(client, SingularitySettings.of(self.settings).image)
            start = self._start_shared if self.settings.container_persistent else Instance.start
            instance = start(client, self.settings, options, image)
        self._instance = instance
        self._kills = self._memory_kills()  # earlier kills in a shared instance
        self.observation.target = ("instance", instance.name)

    def _join(self, client: Client, name: str) -> Instance:
        current_start().report(f"joining instance {name}")
        for record in records(client, name):
            instance = Instance.of(client, record)
            if instance.processes:
                return instance
        program = PurePosixPath(client.program).name
        raise EnvironmentStartError(
            f"backend 'singularity': no instance {name} of this user is running; `{program} instance list` lists "
            f"the instances, and `{program} instance start IMAGE {name}` starts one"
        )

    def _start_shared(
        self, client: Client, settings: EnvironmentSettings, options: Sequence[str], image: str
    ) -> Instance:
        """Return an instance on the task's kept files: already in use in this process, or new."""
        self._claim = claim = SharedClaim[Instance](claim_name(self._machine, kept_key(settings, image)))

        def begin(others: Instance | None) -> Instance:
            self._is_first = others is None
            if others and others.is_running(self._machine):
                if others.spec != (image, *options):
                    raise self._in_use_error()  # the same files, with other options
                return others
            for orphan in orphans(self._machine):  # an orphan may have the kept files open
                remove(orphan, self._machine)
            if others:
                others.end(client)
            return Instance.start(client, settings, options, image)

        instance = claim.join(begin)
        if instance is None:
            raise self._in_use_error()
        return instance

    def _in_use_error(self) -> EnvironmentStartError:
        return EnvironmentStartError(
            f"backend 'singularity': the kept files of task {self.settings.task_id!r} are in use by another "
            "environment; give this one another task_id, or switch TERMINAL_CONTAINER_PERSISTENT off"
        )

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        client, instance = self._live_instance()
        return instance.open_stream(client, argv, terminal)

    def _live_instance(self) -> tuple[Client, Instance]:
        client, instance = self._client, self._instance
        if client is None or instance is None:
            raise self.life.lost("there is no instance")
        return client, instance

    def target_loss(self) -> str | None:
        if loss := self._machine.loss():
            return loss
        instance = self._instance  # read once, as another thread may clear it
        try:
            if instance is None or instance.is_running(self._machine):
                return None
        except TerminalError as error:  # the machine cannot be reached
            return str(error)
        how = ", or was restarted" if self._joined else "; its first process was killed"
        return f"instance {instance.name} has ended{how}"

    def why_killed(self) -> str | None:
        found, before = self._memory_kills(), self._kills
        self._kills = max(found, before)
        if found <= before:
            return None
        if self._joined:
            return f"instance {self._joined} ran out of memory, by a limit of its own; a process was ended"
        return (
            f"the instance ran out of memory (container_memory is {self.settings.container_memory} MB), and a process "
            "was ended; allow it more"
        )

    def _memory_kills(self) -> int:
        instance = self._instance if self._joined or self.settings.container_memory else None
        try:
            return instance.memory_kills(self._machine) if instance else 0
        except TerminalError:  # the machine cannot be reached
            return 0

    def stop_target(self) -> None:
        # A shared instance ends with its last environment in this process. A joined instance keeps running.
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
        finally:  # also after a failure: an instance that hangs in the kernel must not block the next start
            self._instance = self._claim = None

    # Its address.

    def describe_target(self, cwd: str) -> Target:
        client, instance = self._live_instance()
        # The PATH of a login over SSH may lack the program's directory.
        program = client.program if self._machine.place else PurePosixPath(client.program).name
        enter = self._machine.host.login_command((program, "shell", "--pwd", cwd, f"instance://{instance.name}"))
        return Target("singularity", "instance", instance.name, instance.name, self._machine.name, enter)

    def find_address(self, port: int) -> Address:
        # An instance shares its machine's network, unless it was started with a network of its own.
        self.ensure_started()
        _, instance = self._live_instance()
        host = instance.record.ip if instance.has_own_network else "127.0.0.1"
        if host:
            return self._machine.host.forwarded(host, port)
        raise UnsupportedError(
            f"backend 'singularity': no port of instance {instance.name} can be reached, as it has no network in "
            "common with its machine; leave network on"
        )

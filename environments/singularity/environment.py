"""Commands in an Apptainer or Singularity instance."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial

from environments.base import BaseEnvironment
from environments.claim import SharedClaim
from environments.errors import EnvironmentStartError, SettingsError, TerminalError
from environments.found_target import FoundTarget
from environments.owner import Orphan
from environments.settings import EnvironmentSettings
from environments.singularity.client import Client
from environments.singularity.image import claim_name, resolve_image
from environments.singularity.inside import InstanceEnvironment, reached
from environments.singularity.instance import Instance, find_orphans, orphans, remove
from environments.singularity.joined import JoinedEnvironment
from environments.singularity.listing import find_targets
from environments.singularity.options import limits, memory_kills, start_options
from environments.singularity.overlay import kept_key
from environments.singularity.running import Running
from environments.singularity.settings import SingularitySettings
from environments.singularity.this_machine import THIS_MACHINE
from environments.sources import UnheldLimitsError, going_without, load_settings


class SingularityEnvironment(InstanceEnvironment):
    """Runs commands in an instance of its own, which ends with the environment; see `Overlay` for what is kept."""

    proxies_network = True

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        if SingularitySettings.of(settings).instance:
            raise SettingsError(
                "SingularityEnvironment starts an instance, and singularity_instance names one that runs already; make "
                "it with create_environment"
            )
        self._claim: SharedClaim[Running] | None = None
        self._began = True
        self._kills = 0

    @classmethod
    def create(cls, settings: EnvironmentSettings) -> BaseEnvironment:
        """Build an environment, in an instance that runs already if the settings name one, see `BaseEnvironment`."""
        return JoinedEnvironment(settings) if SingularitySettings.of(settings).instance else cls(settings)

    @classmethod
    def find_orphans(cls) -> Iterator[Orphan]:
        """Find the instances whose owner has ended, see `BaseEnvironment`."""
        settings = load_settings("singularity")
        if settings.over:
            with reached(settings) as machine:
                yield from find_orphans(machine)
        yield from find_orphans()

    @classmethod
    def find_targets(cls) -> Iterator[FoundTarget]:
        """Go through the instances, and what is kept of earlier ones, see `BaseEnvironment`."""
        settings = load_settings("singularity")
        if settings.over:
            with reached(settings) as machine:
                yield from find_targets(machine, partial(reached, settings))
        yield from find_targets(THIS_MACHINE, lambda: contextlib.nullcontext(THIS_MACHINE))

    @property
    def is_alone(self) -> bool:
        """Whether this is the first environment in the instance, see `PersistentShellEnvironment.is_alone`.

        The instance always has process ids of its own.
        """
        return self._began

    @property
    def stop_ends_all(self) -> bool:
        """Whether the instance, with all that runs and is written in it, is gone when it is stopped."""
        return not (
            self.settings.container_persistent or (SingularitySettings.of(self.settings).binds and self.has_scratch)
        )

    @property
    def enforced_limits(self) -> frozenset[str]:
        """The limits that are set: an instance that cannot have one of them does not start."""
        disk = ["container_disk"] if self.settings.container_disk else []
        return frozenset([*limits(self.settings), *disk])

    def start_target(self) -> None:
        """Start an instance, see `PersistentShellEnvironment`, or take up that of others of this process."""
        if self._machine.reach() and self._instance and self._instance.running:
            return None  # only the link to it was lost
        while True:
            self._end_instance()  # what a loss has left
            try:
                return self._start()
            except UnheldLimitsError as error:
                self.settings = going_without(self.settings, error)

    def _start(self) -> None:
        self._client = client = Client.found(self._machine)
        options = start_options(self.settings, self._machine)
        image = resolve_image(client, SingularitySettings.of(self.settings).image)
        if self.settings.container_persistent:
            self._instance = self._shared(client, options, image)
        else:
            self._instance = Running.begun(client, self.settings, options, image).instance
        self._kills = self._memory_kills()  # those of others, where it is shared
        self.observation.target = ("instance", self._instance.name)

    def _shared(self, client: Client, options: Sequence[str], image: str) -> Instance:
        """Return an instance over what is kept for the task: that of others in this process, or a new one."""
        self._claim = claim = SharedClaim[Running](claim_name(self._machine, kept_key(self.settings, image)))

        def begin(others: Running | None) -> Running:
            self._began = others is None
            if others and others.instance.through(client).running:
                if others.made_of != (image, *options):
                    raise self._in_use()  # over the same files, but not what this one asks for
                return others
            for orphan in orphans(self._machine):  # one of them may have the kept files open
                remove(orphan, self._machine)
            if others:
                others.instance.through(client).end()
            return Running.begun(client, self.settings, options, image)

        running = claim.join(begin)
        if running is None:
            raise self._in_use()
        return running.instance.through(client)

    def _in_use(self) -> EnvironmentStartError:
        return EnvironmentStartError(
            f"backend 'singularity': the kept files of task {self.settings.task_id!r} are in use by another "
            "environment; give this one another task_id, or switch TERMINAL_CONTAINER_PERSISTENT off"
        )

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
            instance = self._instance if self.settings.container_memory else None
            return memory_kills(instance.pid, self._machine) if instance else 0
        except TerminalError:  # its machine cannot be reached
            return 0

    def stop_target(self) -> None:
        """End the instance, if no other environment of this process has it, see `PersistentShellEnvironment`."""
        try:
            self._end_instance()
        finally:
            self._machine.leave()

    def _end_instance(self) -> None:
        client, instance, self._instance, self._kills = self._client, self._instance, None, 0
        claim, self._claim = self._claim, None
        if claim:
            claim.leave(lambda running: running.instance.through(client).end() if client else None)
        elif instance:
            instance.end()

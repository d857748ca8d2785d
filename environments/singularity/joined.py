"""Commands in an instance that runs already."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from environments.errors import EnvironmentStartError, TerminalError
from environments.settings import EnvironmentSettings
from environments.singularity.client import Client
from environments.singularity.inside import InstanceEnvironment
from environments.singularity.instance import Instance, records
from environments.singularity.options import memory_kills
from environments.singularity.settings import SingularitySettings
from environments.starting import current_start


class JoinedEnvironment(InstanceEnvironment):
    """Runs commands in somebody else's instance, beside what runs there, and takes away only what it has brought.

    The instance is looked up by its name whenever it has to be joined, so that one which was started anew is found.
    """

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._name = str(SingularitySettings.of(settings).instance)
        self._kills = 0

    @property
    def enforced_limits(self) -> frozenset[str]:
        """The limits that are ours: none."""
        return frozenset()

    def start_target(self) -> None:
        """Find the instance, see `PersistentShellEnvironment`."""
        self._release()  # what a loss has left
        self._machine.reach()
        current_start().tell(f"joining instance {self._name}")
        self._client = client = Client.found(self._machine)
        record = next((record for record in records(client, self._name) if record.name == self._name), None)
        instance = Instance(client, record) if record else None
        if instance is None or not instance.running:
            if instance:
                instance.release()
            program = Path(client.program).name
            raise EnvironmentStartError(
                f"backend 'singularity': no instance {self._name} of this user runs that could be joined; "
                f"`{program} instance list` lists those there are, and `{program} instance start IMAGE {self._name}` "
                "starts one"
            )
        self._instance = instance
        self._kills = self._memory_kills()  # those of others
        self.observation.target = ("instance", instance.name)

    def instance_loss(self) -> str | None:
        """Say whether the instance has ended, see `InstanceEnvironment`."""
        instance = self._instance
        if instance and not instance.running:
            return f"instance {self._name} has ended, or was started anew"
        return None

    def why_killed(self) -> str | None:
        """Say so if the kernel has ended a process for its memory, see `BaseEnvironment`."""
        found, before = self._memory_kills(), self._kills
        self._kills = max(found, before)
        if found <= before:
            return None
        return f"instance {self._name} ran out of memory, of which it has a limit of its own; a process was ended"

    def _memory_kills(self) -> int:
        """Count the kills in the instance, if it has limits of its own, and with them a cgroup."""
        instance = self._instance
        if instance is None:
            return 0
        try:
            theirs, ours = (self._machine.read(PurePosixPath(f"/proc/{pid}/cgroup")) for pid in (instance.pid, "self"))
            return memory_kills(instance.pid, self._machine) if theirs != ours else 0
        except TerminalError:  # its machine cannot be reached
            return 0

    def stop_target(self) -> None:
        """Leave the instance, see `PersistentShellEnvironment`. It goes on as it did before."""
        self._release()
        self._machine.leave()

    def _release(self) -> None:
        instance, self._instance = self._instance, None
        if instance:
            instance.release()

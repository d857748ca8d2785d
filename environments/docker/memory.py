"""What a container's memory is limited to, and whether it has run out since that was asked last."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from environments.docker.options import ContainerOptions, memory_limit
from environments.settings import EnvironmentSettings
from environments.shell.memory import kills

if TYPE_CHECKING:
    from docker import APIClient


class Memory:
    """The memory of one container.

    Args:
        settings: Say what it is limited to.
        options: What the engine was asked for, where a flag may stand in place of the setting.
    """

    def __init__(self, settings: EnvironmentSettings, options: ContainerOptions) -> None:
        self._settings = settings
        self._options = options
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget what there was, as the container is started."""
        self._asked = ""
        self._kills = 0

    @property
    def limit(self) -> str:
        """The limit, by the name under which it can be changed."""
        megabytes, flag = memory_limit(self._settings), self._options.host.get("mem_limit")
        if flag and flag != f"{megabytes}m":
            return f"--memory of docker_extra_args is {flag}"
        limit = f"{megabytes} MB" if megabytes else "0, which is no limit, and the machine's own memory is used up"
        return f"container_memory is {limit}"

    def has_killed(self, api: APIClient, files: str) -> bool:
        """Whether the kernel has ended a process of the container since this was asked last.

        Args:
            api: The engine.
            files: What the cgroup's files hold, see `counting_kills`.
        """
        found = kills(files)
        if found <= self._kills:
            return False
        self._kills = found
        self._note_time(api)
        return True

    def ran_out(self, api: APIClient, container: str, state: Mapping[str, object]) -> bool:
        """Whether it has since this was asked last, as the engine tells, where the container's files cannot be read."""
        since = self._asked or _timestamp(str(state["StartedAt"]))
        found, self._asked = ran_out(api, container, since)
        return found

    def _note_time(self, api: APIClient) -> None:
        self._asked = now_there(api)


def ran_out(api: APIClient, container: str, since: str) -> tuple[bool, str]:
    """Return whether a container ran out of memory since a moment, and the moment until which that was asked.

    The engine's state of a container tells it of the first process alone, so that its events are asked for. They are
    bounded by the engine's own clock, as it would wait for a moment that it has not come to.
    """
    until = now_there(api)
    # Whole seconds, which the stubs want, are too coarse.
    events = api.events(  # type: ignore[call-overload]
        since=since, until=until, filters={"container": container, "event": "oom"}, decode=True
    )
    return any(True for _ in events), until


def now_there(api: APIClient) -> str:
    """Return the time by the engine's clock, as it wants to be asked."""
    return _timestamp(str(api.info()["SystemTime"]))


def _timestamp(text: str) -> str:
    """Turn a time as the engine tells it into one as it wants to be asked."""
    return f"{datetime.fromisoformat(text).timestamp():.6f}"

"""The capabilities of the server: the tools for each client, and the settings of a client's environment."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from environments import BaseEnvironment, create_environment
from environments.approvals import Approver
from environments.errors import SettingsError
from environments.progress import OnProgress, Progress
from environments.validation import closest
from hermes_env.schemas.toolset import BUILT_IN, Toolset

_DEFAULT_TASK = "default"


@dataclass(frozen=True, slots=True)
class ServedCapabilities:
    """The tools and the environment of each client."""

    backend: str | None
    """The given backend's name; None is the configured backend."""
    settings: Mapping[str, object]
    """Settings of the environment, which override the configuration."""
    tools: Toolset
    on_progress: Callable[[Progress], object]
    """Receives the progress of starts, in addition to the client."""
    place: str
    """The backend's name, configured or given."""
    is_task_chosen: bool
    """True if all clients share a task id, to find a kept target again."""

    def environment(self, approve: Approver, on_progress: OnProgress) -> BaseEnvironment:
        """Make an environment for a client. The first use starts the target.

        Args:
            approve: Asks the client's user.
            on_progress: Receives the progress of the start.

        Raises:
            TerminalError: See `create_environment`.
        """
        task = {} if self.is_task_chosen else {"task_id": f"mcp-{secrets.token_hex(4)}"}
        settings = {**self.settings, **task}
        return create_environment(self.backend, approve=approve, on_progress=on_progress, **settings)


@contextmanager
def checked_capabilities(
    backend: str | None,
    settings: Mapping[str, object],
    tools: Iterable[str] | None,
    on_progress: Callable[[Progress], object],
) -> Iterator[ServedCapabilities]:
    """Check the arguments by making an environment without a start, and yield the capabilities.

    Args:
        backend: The backend's name; None is the configured backend.
        settings: Settings that override the configuration.
        tools: Names of the tools; None is all tools.
        on_progress: Receives the progress of starts.

    Raises:
        SettingsError: A tool is unknown.
        TerminalError: No environment can be made, see `create_environment`.
    """
    for name in tools or ():
        if name not in BUILT_IN:
            raise SettingsError(
                f"--tool {name}: there is no such tool{closest(name, BUILT_IN)}; there are: {', '.join(BUILT_IN)}"
            )
    # The environment is kept for the whole block, so that the records of all clients are one run.
    with create_environment(backend, **settings) as environment:
        found = environment.settings
        is_task_chosen = found.container_persistent or found.task_id != _DEFAULT_TASK
        yield ServedCapabilities(backend, settings, Toolset.of(tools, None), on_progress, found.env, is_task_chosen)

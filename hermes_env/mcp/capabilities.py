"""The capabilities of the server: which tools each client is offered, and how its environment is made."""

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
class ClientCapabilities:
    """The tools and the environment of each client."""

    backend: str | None
    """The backend's name; None is the configured one."""
    settings: Mapping[str, object]
    """Settings of its environment, over those that are configured."""
    tools: Toolset
    on_progress: Callable[[Progress], object]
    """Receives the progress of starts, as the client does."""
    place: str
    """The backend's name, configured or given."""
    is_task_chosen: bool
    """Whether all clients work for one task, by whose id what is kept is found again."""

    def environment(self, approve: Approver, on_progress: OnProgress) -> BaseEnvironment:
        """Make an environment for one client. It starts with its first use.

        Args:
            approve: Asks the client's user.
            on_progress: Receives the progress of its start.

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
) -> Iterator[ClientCapabilities]:
    """Check the arguments by making one environment, which is never started, and yield the capabilities.

    Args:
        backend: The backend's name; None is the configured one.
        settings: Settings over those that are configured.
        tools: Names of the tools; None is all of them.
        on_progress: Receives the progress of starts.

    Raises:
        SettingsError: There is no such tool.
        TerminalError: No environment can be made, see `create_environment`.
    """
    for name in tools or ():
        if name not in BUILT_IN:
            raise SettingsError(
                f"--tool {name}: there is no such tool{closest(name, BUILT_IN)}; there are: {', '.join(BUILT_IN)}"
            )
    # It is kept for the whole block: the records of all clients are then one run.
    with create_environment(backend, **settings) as environment:
        found = environment.settings
        is_task_chosen = found.container_persistent or found.task_id != _DEFAULT_TASK
        yield ClientCapabilities(backend, settings, Toolset.of(tools, None), on_progress, found.env, is_task_chosen)

"""Where a command runs: one interface over this machine, containers, remote hosts and cloud sandboxes.

with create_environment() as env:
    print(env.execute("uname -a").output)
"""

from typing import TYPE_CHECKING

from environments.base import BaseEnvironment
from environments.errors import (
    DeniedError,
    EnvironmentLostError,
    EnvironmentStartError,
    MissingExtraError,
    SettingsError,
    StartStoppedError,
    TerminalError,
    UnsupportedError,
)
from environments.factory import create_environment
from environments.owner import Orphan
from environments.process import Process
from environments.registry import backend_class, backend_names
from environments.result import INTERRUPT_EXIT_CODE, TIMEOUT_EXIT_CODE, Capabilities, CommandResult
from environments.settings import BackendSettings, EnvironmentSettings
from environments.sources import load_settings

if TYPE_CHECKING:
    from environments.manager import (
        cleanup_all,
        cleanup_environment,
        clear_task_settings,
        get_environment,
        register_task_settings,
    )
else:
    _OF_MANAGER = frozenset(
        {"cleanup_all", "cleanup_environment", "clear_task_settings", "get_environment", "register_task_settings"}
    )

    def __getattr__(name: str) -> object:
        """Hand on what `manager` has, which is imported when it is first used: most have no need of it."""
        if name not in _OF_MANAGER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from environments import manager

        return getattr(manager, name)


__all__ = [
    "INTERRUPT_EXIT_CODE",
    "TIMEOUT_EXIT_CODE",
    "BackendSettings",
    "BaseEnvironment",
    "Capabilities",
    "CommandResult",
    "DeniedError",
    "EnvironmentLostError",
    "EnvironmentSettings",
    "EnvironmentStartError",
    "MissingExtraError",
    "Orphan",
    "Process",
    "SettingsError",
    "StartStoppedError",
    "TerminalError",
    "UnsupportedError",
    "backend_class",
    "backend_names",
    "cleanup_all",
    "cleanup_environment",
    "clear_task_settings",
    "create_environment",
    "get_environment",
    "load_settings",
    "register_task_settings",
]

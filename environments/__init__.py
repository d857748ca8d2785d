"""Run commands on any machine: one interface to this machine, containers, remote hosts and cloud sandboxes.

with create_environment() as env:
    print(env.execute("uname -a").output)
"""

from typing import TYPE_CHECKING

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.errors import (
    CallCancelledError,
    DeniedError,
    EnvironmentLostError,
    EnvironmentStartError,
    MissingExtraError,
    ProcessEndedError,
    ProcessTimeoutError,
    SettingsError,
    TargetFileError,
    TerminalError,
    UnsupportedError,
)
from environments.factory import create_environment
from environments.registry import backend_names
from environments.result import Capabilities, CommandResult
from environments.settings import BackendSettings, EnvironmentSettings
from environments.sources import load_settings

if TYPE_CHECKING:
    from environments.files import FileStatus
    from environments.pool import Pool
    from environments.process import Process
    from environments.session import EnvironmentSession
    from environments.target import Target
    from environments.tasks import (
        cleanup_all,
        cleanup_environment,
        clear_task_settings,
        get_environment,
        register_task_settings,
    )
else:
    _HOMES = {
        **dict.fromkeys(
            ("cleanup_all", "cleanup_environment", "clear_task_settings", "get_environment", "register_task_settings"),
            "environments.tasks",
        ),
        "FileStatus": "environments.files",
        "Pool": "environments.pool",
        "EnvironmentSession": "environments.session",
        "Process": "environments.process",
        "Target": "environments.target",
    }

    def __getattr__(name: str) -> object:
        """Import rarely needed names on first use."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "BackendSettings",
    "BaseEnvironment",
    "CallCancelledError",
    "CancelScope",
    "Capabilities",
    "CommandResult",
    "DeniedError",
    "EnvironmentLostError",
    "EnvironmentSession",
    "EnvironmentSettings",
    "EnvironmentStartError",
    "FileStatus",
    "MissingExtraError",
    "Pool",
    "Process",
    "ProcessEndedError",
    "ProcessTimeoutError",
    "SettingsError",
    "Target",
    "TargetFileError",
    "TerminalError",
    "UnsupportedError",
    "backend_names",
    "cleanup_all",
    "cleanup_environment",
    "clear_task_settings",
    "create_environment",
    "get_environment",
    "load_settings",
    "register_task_settings",
]

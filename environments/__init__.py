"""Where a command runs: one interface over this machine, containers, remote hosts and cloud sandboxes.

with create_environment() as env:
    print(env.execute("uname -a").output)
"""

from environments.base import BaseEnvironment, Process
from environments.errors import (
    DeniedError,
    EnvironmentLostError,
    EnvironmentStartError,
    MissingExtraError,
    SettingsError,
    TerminalError,
    UnsupportedError,
)
from environments.factory import create_environment
from environments.owner import Orphan
from environments.registry import backend_class, backend_names
from environments.result import INTERRUPT_EXIT_CODE, TIMEOUT_EXIT_CODE, Capabilities, CommandResult
from environments.settings import BackendSettings, EnvironmentSettings
from environments.sources import load_settings

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
    "TerminalError",
    "UnsupportedError",
    "backend_class",
    "backend_names",
    "create_environment",
    "load_settings",
]

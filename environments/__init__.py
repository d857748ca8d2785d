"""Where a command runs: one interface over this machine, containers, remote hosts and cloud sandboxes.

with create_environment() as env:
    print(env.execute("uname -a").output)
"""

from environments.base import (
    INTERRUPT_EXIT_CODE,
    TIMEOUT_EXIT_CODE,
    BaseEnvironment,
    Capabilities,
    CommandResult,
    EnvironmentLostError,
    EnvironmentStartError,
    MissingExtraError,
    SettingsError,
    TerminalError,
    UnsupportedError,
)
from environments.registry import backend_class, backend_names, create_environment
from environments.settings import EnvironmentSettings, load_settings

__all__ = [
    "INTERRUPT_EXIT_CODE",
    "TIMEOUT_EXIT_CODE",
    "BaseEnvironment",
    "Capabilities",
    "CommandResult",
    "EnvironmentLostError",
    "EnvironmentSettings",
    "EnvironmentStartError",
    "MissingExtraError",
    "SettingsError",
    "TerminalError",
    "UnsupportedError",
    "backend_class",
    "backend_names",
    "create_environment",
    "load_settings",
]

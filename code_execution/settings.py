"""The section `code_execution:` of config.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from code_execution.mcp.settings import servers_of
from environments.sources import config_layer
from environments.validation import validated
from rpc import ToolErrors

if TYPE_CHECKING:
    from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

Mode = Literal["project", "strict"]
KernelMode = Literal["script", "session"]

SECTION = "code_execution"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExecutionSettings:
    """Limits and mode of scripts."""

    timeout: PositiveFloat = 300.0
    """Seconds that a script may run."""
    max_tool_calls: NonNegativeInt = 50
    """Number of tool calls that a script may make."""
    tool_errors: ToolErrors = "raise"
    """Effect of a refused tool call (limit, unknown tool, wrong arguments, denial): `raise` ToolError, or `return` a
    result with `error`."""
    mode: Mode = "project"
    """`project`: the session's working directory and active Python. `strict`: a separate directory and Python."""
    kernel_mode: KernelMode = "script"
    """`script`: a new Python for each script. `session`: one Python that keeps its names from script to script."""
    max_stdout_bytes: PositiveInt = 50_000
    """Bytes of standard output that are kept."""
    max_stderr_bytes: PositiveInt = 10_000
    """Bytes of standard error that are kept, for a script that fails."""
    skill_env_allowlist: tuple[str, ...] = ()
    """Names of otherwise refused variables that a skill may ask for, such as `OPENAI_API_KEY` or `PATH`."""
    mcp_servers: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    """MCP servers whose tools scripts may call, by name."""


def load_code_execution_settings() -> CodeExecutionSettings:
    """Read the settings.

    Raises:
        SettingsError: A key is unknown or a value is not allowed.
    """
    settings = validated(CodeExecutionSettings, config_layer(SECTION))
    if settings.mcp_servers:
        servers_of(settings.mcp_servers)  # an invalid server is reported at once, not at its first use
    return settings

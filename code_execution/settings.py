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
    """Seconds a script may run."""
    max_tool_calls: NonNegativeInt = 50
    """How many tool calls a script may make."""
    tool_errors: ToolErrors = "raise"
    """What a tool call that is refused (the limit, an unknown tool, wrong arguments, a denial) does in the script:
    `raise` ToolError, or `return` a result with `error`, as a tool that fails does."""
    mode: Mode = "project"
    """`project`: the session's working directory and its active Python; `strict`: a directory and Python apart."""
    kernel_mode: KernelMode = "script"
    """`script`: each script has a Python of its own; `session`: those of an environment share one that stays, in which
    what one has defined is there for the next."""
    max_stdout_bytes: PositiveInt = 50_000
    """Bytes of standard output that are kept."""
    max_stderr_bytes: PositiveInt = 10_000
    """Bytes of standard error that are kept, for a script that fails."""
    skill_env_allowlist: tuple[str, ...] = ()
    """Names of variables that a skill may ask for although they are a well-known service's keys, this package's own, or
    change what runs, such as `OPENAI_API_KEY`, `TERMINAL_SSH_PASSWORD` and `PATH`."""
    mcp_servers: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    """MCP servers whose tools scripts may call, each a name with `command`, `args`, `env` and `cwd`, or with `url`,
    `headers` and `token_env`; also `tools`, `timeout` and `enabled`. See docs/mcp.md."""


def load_code_execution_settings() -> CodeExecutionSettings:
    """Read the settings.

    Raises:
        SettingsError: A key is unknown or a value is not allowed.
    """
    settings = validated(CodeExecutionSettings, config_layer(SECTION))
    if settings.mcp_servers:
        servers_of(settings.mcp_servers)  # a fault is an error at once, and not with the first script that calls one
    return settings

"""`code_execution.mcp_servers:` of config.yaml: MCP servers for scripts, and their addresses."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from environments.errors import SettingsError
from environments.validation import Given, validated

if TYPE_CHECKING:
    from pydantic import PositiveFloat

WHERE = "code_execution.mcp_servers"
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_LISTS_TOOLS = re.compile(r"\b(dir|help|getattr|vars)\s*\(\s*hermes_tools\s*[,)]")
"""Matches a script that lists the available tools."""
_OF_COMMAND = ("args", "env", "cwd")
_OF_URL = ("headers", "token_env")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """One server: a command that is run on this machine, or a URL."""

    type: Literal["stdio", "http", "streamable-http"] | None = None
    """Transport: `stdio`, `http` or `streamable-http`; follows from `command` or `url` if not set."""
    command: str | None = None
    """Program of the server, run on this machine with MCP on its standard input and output."""
    args: tuple[str, ...] = field(default=(), repr=False)
    """Arguments of the program."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for the program, beside `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and `USER`. `${NAME}` inserts a
    variable of this process."""
    cwd: str | None = None
    """Working directory of the program; this process's if not set."""
    url: str | None = field(default=None, repr=False)
    """Address of a streamable HTTP server, in place of `command`."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of each HTTP request."""
    token_env: str | None = None
    """Name of the variable here with the server's bearer token."""
    enabled: bool = True
    """True: scripts may call the server."""
    tools: tuple[str, ...] | None = None
    """Names of the tools that scripts may call; all if not set."""
    timeout: PositiveFloat = 60.0
    """Seconds for the server's start, and for each call."""

    def check(self, where: str) -> None:
        """Check that the settings fit together.

        Raises:
            SettingsError: The settings do not fit together.
        """
        if (self.command is None) == (self.url is None):
            raise SettingsError(f"{where}: give either a command or a url")
        if self.type and (self.type == "stdio") != bool(self.command):
            raise SettingsError(f"{where}: type is {self.type}, but command or url means another type; leave type out")
        kind, foreign = ("command", _OF_URL) if self.command else ("url", _OF_COMMAND)
        if meant := [name for name in foreign if getattr(self, name)]:
            raise SettingsError(f"{where}: {meant[0]} means nothing for a server with a {kind}; leave it out")
        if self.url and not _VARIABLE.match(self.url) and not self.url.lower().startswith(("http://", "https://")):
            raise SettingsError(f"{where}.url: it should begin with http:// or https://")


def servers_of(entries: Mapping[str, object]) -> dict[str, McpServer]:
    """Return the enabled servers, by prefix of their tools' names, without the `_` after the prefix.

    Args:
        entries: The mapping below `mcp_servers:`.

    Raises:
        SettingsError: A key is unknown, or a value is not allowed.
    """
    servers: dict[str, McpServer] = {}
    for name, entry in entries.items():
        where = f"{WHERE}.{name}"
        python_name = re.sub(r"\W", "_", name)
        if not python_name.isidentifier() or python_name.startswith("_"):
            raise SettingsError(f"{where}: the name of a server begins its tools' names, so it begins with a letter")
        if not isinstance(entry, Mapping) or not all(isinstance(key, str) for key in entry):
            raise SettingsError(f"{where}: it should be a mapping with a command or a url")
        server = validated(McpServer, {key: Given(value, f"{where}.{key}") for key, value in entry.items()})
        server.check(where)
        if python_name in servers:
            raise SettingsError(f"{where}: another server is called {python_name!r} in scripts, too; rename one")
        if server.enabled:
            servers[python_name] = server
    return servers


def with_variables(text: str, where: str) -> str:
    """Return a text with `${NAME}` and `${NAME:-default}` replaced by the values of this process's variables.

    Raises:
        SettingsError: A variable is not set, and there is no default.
    """

    def value_of(found: re.Match[str]) -> str:
        value = os.environ.get(found[1], found[2])
        if value is None:
            raise SettingsError(f"{where}: the variable {found[1]} is not set; set it, or write ${{{found[1]}:-}}")
        return value

    return _VARIABLE.sub(value_of, text)


def called_by(code: str, servers: Mapping[str, McpServer]) -> dict[str, McpServer]:
    """Return the servers whose name occurs in a script's text, because tool names begin with the server's name."""
    if _LISTS_TOOLS.search(code):
        return dict(servers)
    return {name: server for name, server in servers.items() if re.search(rf"\b{re.escape(name)}(?=\b|_)", code)}

"""`hermes-env mcp`: serves the tools to clients of the Model Context Protocol (MCP)."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from environments.errors import SettingsError
from environments.extras import missing_library
from environments.secrets import register_secret
from hermes_env.cli.errors import EndedBySignalError
from hermes_env.cli.options import Backend, Cwd, Record, Settings, Verbose, seconds, settings_from

if TYPE_CHECKING:
    from hermes_env.mcp.http import Listener

TOKEN = "HERMES_MCP_TOKEN"  # noqa: S105 - the name of a variable
SHORTEST_TOKEN = 16
"""Characters of the shortest token that is hard to guess."""
_MAKING_TOKEN = "export HERMES_MCP_TOKEN=$(python3 -c 'import secrets; print(secrets.token_urlsafe(32))')"  # noqa: S105 - a command


def mcp_command(
    *,
    backend: Backend = None,
    cwd: Cwd = None,
    tools: Annotated[
        list[str] | None,
        typer.Option("--tool", metavar="NAME", help="Offer only this tool; may be repeated."),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Serve HTTP at /mcp instead of standard input."),
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="Accept this name of the machine in HTTP; may be repeated.",
        ),
    ] = None,
    idle_timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            parser=seconds("--idle-timeout", finite=True),
            help="End an HTTP session after this time without a request.",
        ),
    ] = 1800.0,
    record: Record = None,
    verbose: Verbose = 0,
    assignments: Settings = None,
) -> None:
    """Serve the tools to MCP clients: desktop applications, editors and agents.

    A client usually starts this command. With --http, clients connect to a port with the token of the variable
    HERMES_MCP_TOKEN. Each client has its own environment.

    Exit codes: 0 the client closed the connection, or SIGTERM or SIGHUP ended the server; 130 Ctrl-C; 125 the server
    could not start; 2 wrong usage or setting.
    """
    token = _removed_token()
    register_secret(TOKEN, token)
    settings = settings_from(assignments, cwd=cwd, record=record)
    try:
        import anyio

        from hermes_env.mcp.capabilities import checked_capabilities
        from hermes_env.mcp.http import Listener, serve_http
        from hermes_env.mcp.server import build_server
        from hermes_env.mcp.stdio import serve_stdio
    except ImportError:
        raise missing_library("hermes-env mcp", "mcp", "mcp") from None
    from hermes_env.progress import StartDisplay

    with (
        StartDisplay(bool(verbose)) as display,
        checked_capabilities(backend, settings, tools, display.update) as capabilities,
    ):
        server = build_server(capabilities)
        if http is None:
            if sys.stdin.isatty():
                _print("this MCP server waits for a client on standard input; Ctrl-C ends it. See docs/mcp.md")
            by_ctrl_c = anyio.run(serve_stdio, server) and sys.stdin.isatty()  # without a terminal, a client's signal
        else:
            if not token:
                raise SettingsError(
                    f"over HTTP, clients need a token, and HERMES_MCP_TOKEN is not set. Make one by: {_MAKING_TOKEN}"
                )
            listener = Listener(http)
            with listener.socket:
                _check_token(token, listener)
                by_ctrl_c = anyio.run(
                    lambda: serve_http(server, listener, token, hosts=hosts or (), idle_timeout=idle_timeout)
                )
    if by_ctrl_c:
        raise EndedBySignalError("ended by Ctrl-C")


def _removed_token() -> str:
    """Remove the token from the environment variables, also in `/proc/PID/environ`, and return the token."""
    token = os.environ.get(TOKEN, "")
    find = ctypes.CDLL(None).getenv
    find.restype = ctypes.c_void_p
    if token and (place := find(TOKEN.encode())):
        ctypes.memset(place, ord("*"), len(os.fsencode(token)))
    os.environ.pop(TOKEN, None)
    return token


def _check_token(token: str, listener: Listener) -> None:
    """Warn of a token that can be guessed or read.

    Raises:
        SettingsError: Other machines can connect, and can guess the token.
    """
    if len(token) < SHORTEST_TOKEN:
        problem = f"HERMES_MCP_TOKEN is shorter than {SHORTEST_TOKEN} characters, and so can be guessed"
        if not listener.is_local:
            raise SettingsError(f"{problem} by other machines, which can connect. Make a token by: {_MAKING_TOKEN}")
        _print(f"{problem} by other users of this machine", colour="yellow")
    if not listener.is_local:
        _print(
            "other machines can connect, and HTTP is not encrypted: a token read on the network allows commands here. "
            "Put a TLS proxy in front, or listen on 127.0.0.1 and connect clients through ssh -L",
            colour="yellow",
        )


def _print(text: str, colour: str | None = None) -> None:
    typer.secho(f"hermes-env: {text}", fg=colour, err=True)

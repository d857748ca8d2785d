"""`hermes-env mcp`: our tools for clients that speak the Model Context Protocol."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from environments.errors import SettingsError
from environments.extras import missing_library
from environments.plain_number import plain_number
from environments.secrets import keep_secret
from hermes_env.cli.options import Backend, Cwd, Record, Settings, Verbose, settings_from

TOKEN = "HERMES_MCP_TOKEN"  # noqa: S105 - the name of a variable


def _positive(seconds: float) -> float:
    if not 0 < seconds < float("inf"):
        raise SettingsError(f"--idle-timeout {plain_number(seconds)}: it should be a number greater than 0")
    return seconds


def mcp_command(
    *,
    backend: Backend = None,
    cwd: Cwd = None,
    tools: Annotated[
        list[str] | None,
        typer.Option("--tool", metavar="NAME", help="Offer this tool; all by default. May be repeated."),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Serve HTTP there, at /mcp; standard input by default."),
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A further name by which this machine is called in HTTP. May be repeated.",
        ),
    ] = None,
    idle_timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", callback=_positive, help="End a session over HTTP after so long without any request."
        ),
    ] = 1800.0,
    record: Record = None,
    verbose: Verbose = 0,
    assignments: Settings = None,
) -> None:
    """Serve the tools to MCP clients: desktop applications, editors and agents.

    A client that starts servers itself is given this command; its page in the documentation has the entry for the
    configuration of the well-known ones. With --http, clients connect to a port, and bring the token that is in
    the variable HERMES_MCP_TOKEN.

    Each client has an environment of its own, which starts with its first call and goes with its session. A call that
    a client cancels is ended in the target.

    The server ends with its standard input, or over HTTP with Ctrl-C or SIGTERM. The exit code is then 0; 125 says
    that it could not begin, and 2 that the options cannot be understood.
    """
    token = os.environ.pop(TOKEN, "")  # which nothing that is run here has to see
    keep_secret(TOKEN, token)
    settings = settings_from(assignments, cwd=cwd, record=record)
    try:
        from hermes_env.mcp.offer import offered
        from hermes_env.mcp.serving import Web, serve
    except ImportError as error:
        raise missing_library("hermes-env mcp", "mcp", "mcp") from error
    from hermes_env.progress import ShownProgress

    web = None if http is None else Web(http, token, hosts or (), idle_timeout)
    with ShownProgress(bool(verbose)) as shown, offered(backend, settings, tools, shown.tell) as offer:
        serve(offer, web)

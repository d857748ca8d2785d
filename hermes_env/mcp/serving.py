"""Serving until the end: over standard input and output, or over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import typer
from mcp.server.lowlevel import Server

from environments.errors import SettingsError
from hermes_env.mcp.http import Listener, serve_http
from hermes_env.mcp.offer import Offer
from hermes_env.mcp.server import build_server
from hermes_env.mcp.stdio import serve_stdio

SHORTEST_TOKEN = 16


@dataclass(frozen=True, slots=True)
class Web:
    """How the server is to be reached over HTTP."""

    where: str
    """`HOST:PORT`, or a port."""
    token: str
    """What each request has to bring."""
    hosts: Sequence[str]
    """Further names by which this machine may be called."""
    idle_timeout: float
    """Seconds without any request after which a session is ended."""


def serve(offer: Offer, web: Web | None) -> None:
    """Serve clients until nobody is there any more, or a signal ends us.

    Args:
        offer: What each of them gets.
        web: How they reach us over HTTP; None serves one over standard input and output.

    Raises:
        TerminalError: The settings are not in order, or the port cannot be had.
    """
    server = build_server(offer)
    anyio.run(_serving(server, web))


def _serving(server: Server[Any], web: Web | None) -> Callable[[], Any]:
    if web is None:
        if sys.stdin.isatty():
            _say("this is an MCP server, which a client starts and talks to; Ctrl-C ends it. See docs/mcp.md")
        return partial(serve_stdio, server)
    if len(web.token) < SHORTEST_TOKEN:
        what = f"is shorter than {SHORTEST_TOKEN} characters" if web.token else "is not set"
        raise SettingsError(
            f"over HTTP, clients need a token, and HERMES_MCP_TOKEN {what}. Make one by: "
            "export HERMES_MCP_TOKEN=$(python3 -c 'import secrets; print(secrets.token_urlsafe(32))')"
        )
    listener = Listener(web.where)
    if not listener.is_local:
        _say(
            "other machines can connect, and HTTP is not encrypted: whoever reads the token on its way runs commands "
            "here. Put what speaks TLS before it, or listen on 127.0.0.1 and let clients come through ssh -L",
            colour="yellow",
        )
    return partial(
        serve_http,
        server,
        listener,
        web.token,
        hosts=web.hosts,
        idle_timeout=web.idle_timeout,
        when_ready=lambda: typer.echo(listener.url),
    )


def _say(text: str, colour: str | None = None) -> None:
    typer.secho(f"hermes-env: {text}", fg=colour, err=True)

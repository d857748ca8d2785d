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
"""Characters that a token has which nobody guesses."""
_MAKING_ONE = "export HERMES_MCP_TOKEN=$(python3 -c 'import secrets; print(secrets.token_urlsafe(32))')"


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
    if not web.token:
        raise SettingsError(
            f"over HTTP, clients need a token, and HERMES_MCP_TOKEN is not set. Make one by: {_MAKING_ONE}"
        )
    listener = Listener(web.where)
    _warn_of_guessing(web.token, listener)
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


def _warn_of_guessing(token: str, listener: Listener) -> None:
    """Say so of a token that can be guessed; where other machines could try, it is refused."""
    if len(token) >= SHORTEST_TOKEN:
        return
    problem = f"HERMES_MCP_TOKEN is shorter than {SHORTEST_TOKEN} characters, and so can be guessed"
    if not listener.is_local:
        listener.close()
        raise SettingsError(f"{problem} by other machines, which can connect. Make one by: {_MAKING_ONE}")
    _say(f"{problem} by other users of this machine", colour="yellow")


def _say(text: str, colour: str | None = None) -> None:
    typer.secho(f"hermes-env: {text}", fg=colour, err=True)

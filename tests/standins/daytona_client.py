"""Connects Daytona's client in this process to a stand-in or to the service."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

import daytona as sdk
import pytest

from standins.control import StandIn
from standins.in_process import stand_in_for


def daytona_stand_in(image: str | None = None) -> AbstractContextManager[StandIn]:
    """Run a stand-in for this process, see `stand_in_for`. Without an image, commands run on this machine."""
    return stand_in_for("standins.daytona_server", image, close_clients)


_clients: list[sdk.Daytona] = []


def client() -> sdk.Daytona:
    """Return a client independent of environments, to change sandboxes from outside."""
    if not _clients:
        _clients.append(sdk.Daytona())
    return _clients[0]


def close_clients() -> None:
    """Close the connections of this process. Else they last until its end."""
    from environments.daytona import service
    from environments.loop import run

    async def close(_: object) -> None:
        while service._clients:
            await service._clients.popitem()[1].close()

    run(close)
    while _clients:  # without a public close, the client would look for the stand-in for ever
        _clients.pop()._event_dispatcher.disconnect()


def live_or_skip() -> None:
    """Skip a test against the service if there are no credentials."""
    if not os.environ.get("DAYTONA_API_KEY"):
        pytest.skip("no credentials of Daytona; set DAYTONA_API_KEY")

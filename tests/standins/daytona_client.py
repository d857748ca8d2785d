"""Pointing the client of Daytona in this process at a stand-in, or at the service itself."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

import pytest

from standins.control import StandIn
from standins.in_process import stand_in_for


def daytona_stand_in(image: str | None = None) -> AbstractContextManager[StandIn]:
    """Run a stand-in for this process, see `stand_in_for`. Without an image commands run on this machine."""
    return stand_in_for("standins.daytona_server", image, close_clients)


def close_clients() -> None:
    """Close the client library's connections, which have no public end: it would look for the stand-in for ever."""
    from environments.daytona import service

    while service._clients:
        _, client = service._clients.popitem()
        client._event_dispatcher.disconnect()


def live_or_skip() -> None:
    """Skip a test that was asked to run against the service, where there are no credentials."""
    if not os.environ.get("DAYTONA_API_KEY"):
        pytest.skip("no credentials of Daytona; set DAYTONA_API_KEY")

"""Pointing the client of Daytona in this process at a stand-in, or at the service itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from standins.control import StandIn

LIVE = "HERMES_TEST_LIVE"
"""Set by `make test-live`: run against the real services."""


@contextlib.contextmanager
def daytona_stand_in(image: str | None = None) -> Iterator[StandIn]:
    """Run a stand-in, and point the client of this process at it.

    Args:
        image: The Docker image that commands run in; None runs them on this machine.
    """
    with StandIn("standins.daytona_server", image) as stand_in, pytest.MonkeyPatch.context() as patch:
        for name, value in stand_in.variables.items():
            patch.setenv(name, value)
        try:
            yield stand_in
        finally:
            close_clients()


def close_clients() -> None:
    """Close the client library's connections, which have no public end: it would look for the stand-in for ever."""
    from environments import daytona_service

    while daytona_service._clients:
        _, client = daytona_service._clients.popitem()
        client._event_dispatcher.disconnect()


def live_or_skip() -> None:
    """Skip a test that was asked to run against the service, where there are no credentials."""
    if not os.environ.get("DAYTONA_API_KEY"):
        pytest.skip("no credentials of Daytona; set DAYTONA_API_KEY")

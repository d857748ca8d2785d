"""Pointing the client of Modal in this process at a stand-in, or at the service itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from standins.control import StandIn

LIVE = "HERMES_TEST_LIVE"
"""Set by `make test-live`: run against the real services."""


@contextlib.contextmanager
def modal_stand_in(image: str | None = None) -> Iterator[StandIn]:
    """Run a stand-in, and point the client of this process at it.

    Args:
        image: The Docker image that commands run in; None runs them on this machine.
    """
    with StandIn("standins.modal_server", image) as stand_in, pytest.MonkeyPatch.context() as patch:
        for name, value in stand_in.variables.items():
            patch.setenv(name, value)
        try:
            yield stand_in
        finally:
            close_client()


def close_client() -> None:
    """Close the client library's connection, which otherwise lives as long as the process."""
    import modal

    modal.Client.from_env().close()


def live_or_skip() -> None:
    """Skip a test that was asked to run against the service, where there are no credentials."""
    if not os.environ.get("MODAL_TOKEN_ID") or not os.environ.get("MODAL_TOKEN_SECRET"):
        pytest.skip("no credentials of Modal; set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET")

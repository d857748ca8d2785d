"""Connects Modal's client in this process to a stand-in or to the service."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

import pytest

from standins.control import StandIn
from standins.in_process import stand_in_for


def modal_stand_in(image: str | None = None) -> AbstractContextManager[StandIn]:
    """Run a stand-in for this process, see `stand_in_for`. Without an image, commands run on this machine."""
    return stand_in_for("standins.modal_server", image, close_client)


def close_client() -> None:
    """Close the client library's connection. Else it lasts until the process's end."""
    import modal

    modal.Client.from_env().close()


def live_or_skip() -> None:
    """Skip a test against the service if there are no credentials."""
    if not os.environ.get("MODAL_TOKEN_ID") or not os.environ.get("MODAL_TOKEN_SECRET"):
        pytest.skip("no credentials of Modal; set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET")

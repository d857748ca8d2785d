"""What Ray has no public way to: all that reaches into its own modules."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

MODE, TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
"""The variables that say whether Ray's processes show each other a token, and which."""


def be_quiet() -> None:
    """Keep the terminal to the batch: what goes wrong with an actor is in the result of its task."""
    worker = _module("worker")
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    if hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = False  # what nodes have to say is printed on stdout otherwise


def found_at(address: str) -> str:
    """Return the HOST:PORT that an address means.

    Args:
        address: HOST:PORT, or `auto` for the cluster that this machine is part of, or that RAY_ADDRESS names.

    Raises:
        ConnectionError: This machine is part of none.
        ValueError: It is none that can be meant.
    """
    found: str | None = _module("services").canonicalize_bootstrap_address(address)
    if found is None:
        raise ConnectionError
    return found


def talk_with_token(asked: bool) -> None:
    """Have this process show the token that the user has, or none.

    Left to itself, Ray shows one to a cluster that it has found as `auto` as soon as any Ray on this machine has made a
    token, and one to a cluster at an address never. Where the cluster sees it otherwise, no actor ever starts.

    Args:
        asked: Whether the cluster asks for one.
    """
    if _knows_tokens():
        os.environ[MODE] = "token" if asked else "disabled"
        talk_as_variables_say()


def use_own_token() -> None:
    """Have a Ray that is started now use a token that only its processes know, unless the user has chosen.

    Ray itself would leave one in the user's home, by which each head that is started later asks for it, too, and nodes
    that are to join it are refused.
    """
    if MODE not in os.environ and _knows_tokens():
        os.environ.update({MODE: "token", TOKEN: os.environ.get(TOKEN) or secrets.token_hex(32)})
        talk_as_variables_say()


def talk_as_variables_say() -> None:
    """Have Ray look at these variables anew, which it remembers."""
    if _knows_tokens():
        raylet = import_module("ray._raylet")
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()


def _knows_tokens() -> bool:
    """Return whether this Ray is one that has tokens: older ones have none."""
    return hasattr(import_module("ray._raylet"), "AuthenticationTokenLoader")


@contextlib.contextmanager
def reached_from_here_alone() -> Iterator[None]:
    """Have a Ray that is started in the block listen at 127.0.0.1, as it does on systems that do not have clusters.

    Otherwise it listens to all networks, and runs what anybody sends it.
    """
    constants = _module("ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def session_folder() -> Path:
    """Return where the Ray that this process has started keeps its logs and sockets."""
    return Path(_module("worker").global_worker.node.get_session_dir_path())


def _module(name: str) -> Any:  # noqa: ANN401
    return import_module(f"ray._private.{name}")

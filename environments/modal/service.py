"""The connection to Modal's service: credentials, its errors in our words, and calls that are tried again."""

from __future__ import annotations

import contextlib
import math
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar
from urllib.parse import urlsplit

import modal
from grpclib.exceptions import GRPCError, StreamTerminatedError
from modal import exception
from modal.config import config

from environments.errors import EnvironmentStartError, UnsupportedError
from environments.log import logger
from environments.starting import current_start

T = TypeVar("T")

PASSING = (
    exception.ServiceError,
    exception.InternalError,
    exception.ResourceExhaustedError,
    exception.ConnectionError,
    StreamTerminatedError,
    OSError,
)
"""What the service or the way to it may not have any more a moment later. The client itself tries again for less long,
and not at all when the rate of calls is limited."""
SERVICE_ERRORS = (exception.Error, GRPCError, StreamTerminatedError, OSError)
"""All that the client raises: its own errors, and those of the protocol and the network under it."""
PATIENCE = 30.0
"""Seconds in which a call is tried again. One that comes back sooner waits twice as long each time."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_SECRETS = ("token_id", "token_secret", "oauth_refresh_token", "oauth_client_secret", "oauth_jwt_key")

HOW_TO_LOG_IN = "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or run `modal setup`, which writes ~/.modal.toml"

log = logger(__name__)


def connect() -> modal.Client:
    """Return the client library's own connection, which lives as long as the process.

    Raises:
        EnvironmentStartError: There are no credentials.
    """
    with reported("the service cannot be reached"):
        return modal.Client.from_env()


def has_credentials() -> bool:
    """Whether anything says who we are to the service. Whether that is taken is another question."""
    return any(config.get(name) for name in ("token_id", "oauth_refresh_token"))


def service_host() -> str:
    """Return the name of the service's host."""
    return urlsplit(str(config.get("server_url"))).hostname or ""


class Backoff:
    """How long to wait before the next try, and when to give up."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew, after a success."""
        self._deadline, self._pause = math.inf, _FIRST_PAUSE

    def next_pause(self, error: Exception, what: str) -> float:
        """Return how many seconds to wait.

        Args:
            error: Why the last try failed. It is raised again once there has been patience enough.
            what: What could not be done, for the log.
        """
        now = time.monotonic()
        self._deadline = min(self._deadline, now + PATIENCE)
        if now + self._pause > self._deadline:
            raise error
        log.info("modal: %s, and it is tried again: %s", what, reason(error))
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        return pause * random.uniform(0.5, 1)  # noqa: S311 - many who failed together should not come back together


def retried(call: Callable[[], T], what: str) -> T:
    """Return what a call returns, which is made again while the service is away for a moment.

    Args:
        call: What to do. It must be harmless to do it twice.
        what: What could not be done, for the log.
    """
    backoff = Backoff()
    while True:
        try:
            return call()
        except PASSING as error:
            current_start().pause(backoff.next_pause(error, what))


@contextlib.contextmanager
def reported(what: str) -> Iterator[None]:
    """Turn an error of the service into one of ours.

    Args:
        what: What could not be done.

    Raises:
        EnvironmentStartError: The service refused, or could not be reached.
        UnsupportedError: It does not offer what was asked for.
    """
    try:
        yield
    except exception.AuthError as error:
        if not has_credentials():
            raise EnvironmentStartError(f"backend 'modal' has no credentials: {HOW_TO_LOG_IN}") from None
        raise EnvironmentStartError(
            f"backend 'modal': the credentials are not taken ({reason(error)}): {HOW_TO_LOG_IN}"
        ) from None
    except exception.UnimplementedError as error:
        raise UnsupportedError(f"backend 'modal': {what}: {reason(error)}") from error
    except SERVICE_ERRORS as error:
        raise EnvironmentStartError(f"backend 'modal': {what}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """Return why the service failed, in its own words, without credentials that it may quote."""
    if isinstance(error, exception.ClientClosed):
        return "the client library's connection was closed"
    text = str(error).strip() or type(error).__name__
    for name in _SECRETS:
        secret = config.get(name) or os.environ.get(f"MODAL_{name.upper()}")
        if secret:
            text = text.replace(str(secret), "***")
    return text

"""The connection to Daytona's service: credentials, its errors in our words, and calls that are tried again."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import httpx
import urllib3

from environments.errors import EnvironmentStartError
from environments.log import logger
from environments.starting import current_start

if TYPE_CHECKING:
    import daytona as sdk
else:
    try:
        import daytona as sdk
    except ModuleNotFoundError as error:
        try:
            import daytona_sdk as sdk  # the name the library had before
        except ModuleNotFoundError:
            raise error from None

T = TypeVar("T")

VARIABLES = (
    "DAYTONA_API_KEY",
    "DAYTONA_JWT_TOKEN",
    "DAYTONA_ORGANIZATION_ID",
    "DAYTONA_API_URL",
    "DAYTONA_SERVER_URL",
    "DAYTONA_TARGET",
)
USUAL_SERVICE = "https://app.daytona.io/api"
SECRETS = ("DAYTONA_API_KEY", "DAYTONA_JWT_TOKEN")
SERVICE_ERRORS = (sdk.DaytonaError, httpx.HTTPError, OSError)
"""All that the client raises: its own errors, and those of the network under it."""
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers that the service may not give any more a moment later."""
PATIENCE = 30.0
"""Seconds in which a call is tried again. One that comes back sooner waits twice as long each time."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
HOW_TO_LOG_IN = "set DAYTONA_API_KEY, or DAYTONA_JWT_TOKEN and DAYTONA_ORGANIZATION_ID"

log = logger(__name__)
_clients: dict[tuple[str | None, ...], sdk.Daytona] = {}
_lock = threading.Lock()


def connect() -> sdk.Daytona:
    """Return a connection, which environments share: each has threads and sockets that live as long as the process.

    Raises:
        EnvironmentStartError: There are no credentials.
    """
    key = tuple(os.environ.get(name) for name in VARIABLES)
    with _lock:
        if key not in _clients:
            try:
                _clients[key] = sdk.Daytona()
            except sdk.DaytonaAuthenticationError:
                raise EnvironmentStartError(f"backend 'daytona' has no credentials: {HOW_TO_LOG_IN}") from None
            except SERVICE_ERRORS as error:
                raise EnvironmentStartError(f"backend 'daytona': no connection can be made: {reason(error)}") from None
        return _clients[key]


def service_host() -> str:
    """Return the name of the service's host."""
    url = os.environ.get("DAYTONA_API_URL") or os.environ.get("DAYTONA_SERVER_URL") or USUAL_SERVICE
    return urlsplit(url).hostname or ""


def has_credentials() -> bool:
    """Whether anything says who we are to the service. Whether that is taken is another question."""
    return any(os.environ.get(name) for name in SECRETS)


def retried(call: Callable[[], T], what: str) -> T:
    """Return what a call returns, which is made again while the service is away for a moment.

    Args:
        call: What to do. It must be harmless to do it twice.
        what: What could not be done, for the log.
    """
    deadline, pause = time.monotonic() + PATIENCE, _FIRST_PAUSE
    while True:
        try:
            return call()
        except SERVICE_ERRORS as error:
            if not _may_pass(error) or time.monotonic() + pause > deadline:
                raise
            log.info("daytona: %s, and it is tried again: %s", what, reason(error))
        # Many who failed together should not come back together.
        current_start().pause(pause * random.uniform(0.5, 1))  # noqa: S311
        pause = min(pause * 2, _LONGEST_PAUSE)


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in PASSING
    if isinstance(error, sdk.DaytonaError):
        return error.status_code in PASSING or _is_of_network(error)
    return True


def _is_of_network(error: BaseException) -> bool:
    """Whether it is one of the network, which the client may only call an error, as a connection that was refused.

    A name that nobody knows will hardly be known a moment later.
    """
    kinds = (sdk.DaytonaConnectionError, httpx.TransportError, urllib3.exceptions.NewConnectionError)
    cause: BaseException | None = error
    while cause and not isinstance(cause, kinds):
        cause = cause.__cause__
    return cause is not None and not isinstance(cause, urllib3.exceptions.NameResolutionError)


def apart(call: Callable[[], T], undo: Callable[[], object] = lambda: None) -> T:
    """Return what a call returns that has a time limit of the client's own.

    The client keeps such limits by SIGALRM on the main thread, which is the user's, and elsewhere by raising an error
    in the middle of whatever the thread does. In a thread of its own neither harms anybody.

    Args:
        call: The call.
        undo: Removes what it has made, if the start that needs it is stopped before its end.
    """
    return current_start().alone(call, undo)


@contextlib.contextmanager
def reported(what: str) -> Iterator[None]:
    """Turn an error of the service into one of ours.

    Args:
        what: What could not be done.

    Raises:
        EnvironmentStartError: The service refused, or could not be reached.
    """
    try:
        yield
    except sdk.DaytonaAuthenticationError as error:
        raise EnvironmentStartError(
            f"backend 'daytona': the credentials are not taken ({reason(error)}): {HOW_TO_LOG_IN}"
        ) from None
    except SERVICE_ERRORS as error:
        raise EnvironmentStartError(f"backend 'daytona': {what}: {reason(error)}") from None


def reason(error: BaseException) -> str:
    """Return why the service failed, in its own words, without credentials that it may quote."""
    text = str(error).strip() or type(error).__name__
    for name in SECRETS:
        if secret := os.environ.get(name):
            text = text.replace(secret, "***")
    return text


__all__ = [
    "HOW_TO_LOG_IN",
    "SERVICE_ERRORS",
    "apart",
    "connect",
    "has_credentials",
    "reason",
    "reported",
    "retried",
    "sdk",
    "service_host",
]

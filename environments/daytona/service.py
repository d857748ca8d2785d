"""The connection to Daytona's service: credentials, its errors in our words, and calls that are tried again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

from environments.errors import EnvironmentStartError
from environments.loop import LoopThread, current
from environments.short_commands.retrying import Retrying

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
SERVICE_ERRORS = (sdk.DaytonaError, aiohttp.ClientError, OSError)
"""All that the client raises: its own errors, and those of the network under it."""
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers that the service may not give any more a moment later."""
HOW_TO_LOG_IN = "set DAYTONA_API_KEY, or DAYTONA_JWT_TOKEN and DAYTONA_ORGANIZATION_ID"

_Client = sdk.AsyncDaytona  # imported here, which takes seconds, and not on the loop thread
_clients: dict[tuple[LoopThread | str | None, ...], sdk.AsyncDaytona] = {}
"""Those of a parent process are kept for ever in a forked child: their sockets are the parent's."""


async def connect() -> sdk.AsyncDaytona:
    """Return a connection, which environments share, and which is closed at the end of the program.

    Raises:
        EnvironmentStartError: There are no credentials.
    """
    thread = current()
    key = (thread, *(os.environ.get(name) for name in VARIABLES))
    if key not in _clients:
        try:
            client = _clients[key] = _Client()
        except sdk.DaytonaAuthenticationError:
            raise EnvironmentStartError(f"backend 'daytona' has no credentials: {HOW_TO_LOG_IN}") from None
        except SERVICE_ERRORS as error:
            raise EnvironmentStartError(f"backend 'daytona': no connection can be made: {reason(error)}") from None
        thread.lend_workers()
        thread.at_end(client.close)
    return _clients[key]


def service_host() -> str:
    """Return the name of the service's host."""
    url = os.environ.get("DAYTONA_API_URL") or os.environ.get("DAYTONA_SERVER_URL") or USUAL_SERVICE
    return urlsplit(url).hostname or ""


def has_credentials() -> bool:
    """Whether anything says who we are to the service. Whether that is taken is another question."""
    return any(os.environ.get(name) for name in SECRETS)


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, aiohttp.ClientResponseError):
        return error.status in PASSING
    if isinstance(error, sdk.DaytonaError):
        return error.status_code in PASSING or _is_of_network(error)
    return isinstance(error, SERVICE_ERRORS)


def _is_of_network(error: BaseException) -> bool:
    """Whether it is one of the network, which the client may only call an error, as a connection that was refused.

    A name that nobody knows will hardly be known a moment later.
    """
    cause: BaseException | None = error
    while cause and not isinstance(cause, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | OSError):
        cause = cause.__cause__
    return cause is not None and not isinstance(cause, aiohttp.ClientConnectorDNSError)


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


retried = Retrying("daytona", _may_pass, reason)

__all__ = [
    "HOW_TO_LOG_IN",
    "SERVICE_ERRORS",
    "connect",
    "has_credentials",
    "reason",
    "reported",
    "retried",
    "sdk",
    "service_host",
]

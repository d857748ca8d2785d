"""The connection to Daytona's service: its client library, and its credentials and errors."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from environments.daytona.settings import HOW_TO_LOG_IN, SECRETS
from environments.loop import LoopThread, current
from environments.short_commands.service import Service

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

import aiohttp  # behind the client, which is the one to name where both are missing

VARIABLES = (
    "DAYTONA_API_KEY",
    "DAYTONA_JWT_TOKEN",
    "DAYTONA_ORGANIZATION_ID",
    "DAYTONA_API_URL",
    "DAYTONA_SERVER_URL",
    "DAYTONA_TARGET",
)
USUAL_SERVICE = "https://app.daytona.io/api"
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers that the service may not give any more a moment later."""


class DaytonaService(Service):
    """Daytona, as its client library reaches it."""

    backend = "daytona"
    title = "Daytona"
    how_to_log_in = HOW_TO_LOG_IN
    errors = (sdk.DaytonaError, aiohttp.ClientError, OSError)
    not_found = sdk.DaytonaNotFoundError
    not_logged_in = sdk.DaytonaAuthenticationError

    def has_credentials(self) -> bool:
        """Return whether variables of this process hold credentials, see `Service`."""
        return any(self.secrets())

    def secrets(self) -> Iterable[str]:
        """Return the credentials, see `Service`."""
        return [secret for name in SECRETS if (secret := os.environ.get(name))]

    def may_pass(self, error: BaseException) -> bool:
        """Return whether the service was away for a moment, or the way to it, see `Service`."""
        if isinstance(error, aiohttp.ClientResponseError):
            return error.status in PASSING
        if isinstance(error, sdk.DaytonaError):
            return error.status_code in PASSING or _is_of_network(error)
        return isinstance(error, self.errors)


def _is_of_network(error: BaseException) -> bool:
    """Return whether the network failed, as by a refused connection, which the client reports as an error of its own.

    A name that does not resolve will hardly do so a moment later.
    """
    cause: BaseException | None = error
    while cause and not isinstance(cause, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | OSError):
        cause = cause.__cause__
    return cause is not None and not isinstance(cause, aiohttp.ClientConnectorDNSError)


service = DaytonaService()
reported, retried, has_credentials = service.reported, service.retried, service.has_credentials

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
        service.check_credentials()
        with reported("no connection can be made"):
            client = _clients[key] = _Client()
        thread.lend_workers()
        thread.at_end(client.close)
    return _clients[key]


def service_host() -> str:
    """Return the name of the service's host."""
    url = os.environ.get("DAYTONA_API_URL") or os.environ.get("DAYTONA_SERVER_URL") or USUAL_SERVICE
    return urlsplit(url).hostname or ""


__all__ = ["connect", "has_credentials", "reported", "retried", "sdk", "service", "service_host"]

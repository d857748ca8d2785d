"""Daytona's service: connection, credentials and errors of the client library."""

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
            import daytona_sdk as sdk  # the library's earlier name
        except ModuleNotFoundError:
            raise error from None

import aiohttp  # after the client library: an ImportError must name that one

VARIABLES = (
    "DAYTONA_API_KEY",
    "DAYTONA_JWT_TOKEN",
    "DAYTONA_ORGANIZATION_ID",
    "DAYTONA_API_URL",
    "DAYTONA_SERVER_URL",
    "DAYTONA_TARGET",
)
USUAL_SERVICE = "https://app.daytona.io/api"
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes of transient errors."""


class DaytonaService(Service):
    """Daytona's service, through its client library."""

    backend = "daytona"
    title = "Daytona"
    how_to_log_in = HOW_TO_LOG_IN
    errors = (sdk.DaytonaError, aiohttp.ClientError, OSError)
    not_found = sdk.DaytonaNotFoundError
    not_logged_in = sdk.DaytonaAuthenticationError

    def has_credentials(self) -> bool:
        return any(self.secrets())

    def secrets(self) -> Iterable[str]:
        return [secret for name in SECRETS if (secret := os.environ.get(name))]

    def is_transient(self, error: BaseException) -> bool:
        if isinstance(error, aiohttp.ClientResponseError):
            return error.status in TRANSIENT
        if isinstance(error, sdk.DaytonaError):
            return error.status_code in TRANSIENT or _is_network_error(error)
        return isinstance(error, self.errors)


def _is_network_error(error: BaseException) -> bool:
    """Return True for an error of the network, such as a refused connection, inside an error of the client.

    An unresolved name is not transient.
    """
    cause: BaseException | None = error
    while cause and not isinstance(cause, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | OSError):
        cause = cause.__cause__
    return cause is not None and not isinstance(cause, aiohttp.ClientConnectorDNSError)


service = DaytonaService()
start_errors, retry, has_credentials = service.start_errors, service.retry, service.has_credentials

_Client = sdk.AsyncDaytona  # imported here and not on the loop thread, as the import takes seconds
_clients: dict[tuple[LoopThread | str | None, ...], sdk.AsyncDaytona] = {}
"""A forked child never closes the clients of its parent, which owns their sockets."""


async def connect() -> sdk.AsyncDaytona:
    """Return a connection, shared by environments, and closed at the end of the program.

    Raises:
        EnvironmentStartError: There are no credentials.
    """
    thread = current()
    key = (thread, *(os.environ.get(name) for name in VARIABLES))
    if key not in _clients:
        service.check_credentials()
        with start_errors("no connection can be made"):
            client = _clients[key] = _Client()
        thread.run_lookups_on_workers()
        thread.at_end(client.close)
    return _clients[key]


def service_host() -> str:
    """Return the name of the service's host."""
    url = os.environ.get("DAYTONA_API_URL") or os.environ.get("DAYTONA_SERVER_URL") or USUAL_SERVICE
    return urlsplit(url).hostname or ""


__all__ = ["connect", "has_credentials", "retry", "sdk", "service", "service_host", "start_errors"]

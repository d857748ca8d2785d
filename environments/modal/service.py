"""Modal's service: connection, credentials and errors of the client library."""

from __future__ import annotations

import os
from collections.abc import Iterable
from urllib.parse import urlsplit

import modal
from grpclib.exceptions import GRPCError, StreamTerminatedError
from modal import exception
from modal.config import config

from environments.modal.settings import HOW_TO_LOG_IN
from environments.shell.lifecycle import clean_up_first
from environments.short_commands.service import Service

clean_up_first()  # the client ends its loop thread at the end of the program

TRANSIENT = (
    exception.ServiceError,
    exception.InternalError,
    exception.ResourceExhaustedError,
    exception.ConnectionError,
    StreamTerminatedError,
    OSError,
)
"""Transient errors. The client itself retries for a shorter time, and never after a rate limit."""
_SECRETS = ("token_id", "token_secret", "oauth_refresh_token", "oauth_client_secret", "oauth_jwt_key")


class ModalService(Service):
    """Modal's service, through its client library."""

    backend = "modal"
    title = "Modal"
    how_to_log_in = HOW_TO_LOG_IN
    errors = (exception.Error, GRPCError, StreamTerminatedError, OSError)
    not_found = exception.NotFoundError
    not_logged_in = exception.AuthError
    unimplemented = (exception.UnimplementedError,)

    def has_credentials(self) -> bool:
        return any(config.get(name) for name in ("token_id", "oauth_refresh_token"))

    def secrets(self) -> Iterable[str]:
        found = (config.get(name) or os.environ.get(f"MODAL_{name.upper()}") for name in _SECRETS)
        return [str(secret) for secret in found if secret]

    def is_transient(self, error: BaseException) -> bool:
        return isinstance(error, TRANSIENT)

    def reason(self, error: BaseException) -> str:
        if isinstance(error, exception.ClientClosed):
            return "the client library's connection was closed"
        return super().reason(error)


service = ModalService()
start_errors, retry, has_credentials = service.start_errors, service.retry, service.has_credentials


async def connect() -> modal.Client:
    """Return the client library's own connection, which lives as long as the process.

    Raises:
        EnvironmentStartError: There are no credentials.
    """
    with start_errors("the service cannot be reached"):
        return await modal.Client.from_env.aio()


def service_host() -> str:
    """Return the name of the service's host."""
    return urlsplit(str(config.get("server_url"))).hostname or ""

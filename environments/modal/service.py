"""The connection to Modal's service: credentials, its errors in our words, and calls that are tried again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import modal
from grpclib.exceptions import GRPCError, StreamTerminatedError
from modal import exception
from modal.config import config

from environments.errors import EnvironmentStartError, UnsupportedError
from environments.shell.lifecycle import clean_up_first
from environments.short_commands.retrying import Retrying

clean_up_first()  # the client ends its loop thread at the end of the program

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
_SECRETS = ("token_id", "token_secret", "oauth_refresh_token", "oauth_client_secret", "oauth_jwt_key")

HOW_TO_LOG_IN = "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or run `modal setup`, which writes ~/.modal.toml"


async def connect() -> modal.Client:
    """Return the client library's own connection, which lives as long as the process.

    Raises:
        EnvironmentStartError: There are no credentials.
    """
    with reported("the service cannot be reached"):
        return await modal.Client.from_env.aio()


def has_credentials() -> bool:
    """Whether anything says who we are to the service. Whether that is taken is another question."""
    return any(config.get(name) for name in ("token_id", "oauth_refresh_token"))


def service_host() -> str:
    """Return the name of the service's host."""
    return urlsplit(str(config.get("server_url"))).hostname or ""


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


retried = Retrying("modal", lambda error: isinstance(error, PASSING), reason)

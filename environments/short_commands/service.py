"""A cloud service: translation of its errors, and retries with backoff."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import ClassVar, TypeVar

from environments.errors import EnvironmentStartError, TerminalError, UnsupportedError
from environments.log import logger

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds of retries of a call. The pause between two attempts doubles."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

log = logger(__name__)


class Service(ABC):
    """The service of one backend, through its client library."""

    backend: ClassVar[str]
    title: ClassVar[str]
    """The service's own name."""
    how_to_log_in: ClassVar[str]
    errors: ClassVar[tuple[type[Exception], ...]]
    """Errors of the client library, and of the network below."""
    not_found: ClassVar[type[Exception]]
    """The error for a missing target."""
    not_logged_in: ClassVar[type[Exception]]
    """The error for missing or refused credentials."""
    unimplemented: ClassVar[tuple[type[Exception], ...]] = ()
    """Errors for calls that the service does not support."""

    @abstractmethod
    def has_credentials(self) -> bool:
        """Return True if credentials are configured. They are not tried."""

    @abstractmethod
    def secrets(self) -> Iterable[str]:
        """Return the credentials. No error message may contain them."""

    @abstractmethod
    def is_transient(self, error: BaseException) -> bool:
        """Return True for a transient error: a retry may succeed."""

    def check_credentials(self) -> None:
        """Check that credentials are configured, without trying them.

        Raises:
            EnvironmentStartError: There are none.
        """
        if not self.has_credentials():
            raise EnvironmentStartError(f"backend {self.backend!r} has no credentials: {self.how_to_log_in}")

    def reason(self, error: BaseException) -> str:
        """Return the service's own words for an error, without credentials."""
        text = str(error).strip() or type(error).__name__
        for secret in self.secrets():
            text = text.replace(secret, "***")
        return text

    @contextlib.contextmanager
    def start_errors(self, action: str) -> Iterator[None]:
        """Turn an error of the service into an EnvironmentStartError.

        Args:
            action: The failed action, for the message.

        Raises:
            EnvironmentStartError: The service refused, or could not be reached.
            UnsupportedError: The service does not support the action.
        """
        try:
            yield
        except self.not_logged_in as error:
            self.check_credentials()
            raise EnvironmentStartError(
                f"backend {self.backend!r}: the credentials were refused ({self.reason(error)}): {self.how_to_log_in}"
            ) from None
        except self.unimplemented as error:
            raise UnsupportedError(f"backend {self.backend!r}: {action}: {self.reason(error)}") from None
        except self.errors as error:
            raise EnvironmentStartError(f"backend {self.backend!r}: {action}: {self.reason(error)}") from None

    @contextlib.contextmanager
    def call_errors(self, action: str) -> Iterator[None]:
        """Turn an error of a call to a running target into a TerminalError.

        Args:
            action: The failed action, for the message.

        Raises:
            TerminalError: The call failed.
        """
        try:
            yield
        except self.errors as error:
            raise TerminalError(f"backend {self.backend!r}: {action}: {self.reason(error)}") from None

    async def retry(self, call: Callable[[], Awaitable[T]], action: str) -> T:
        """Return the result of a call, with retries. Raises the last attempt's error.

        Args:
            call: The call. It must be safe to repeat.
            action: The failure, for the log.
        """
        attempts = Attempts(self, action)
        while True:
            try:
                return await call()
            except Exception as error:
                await attempts.failed(error)


class Attempts:
    """Attempts of one call with a backoff between them and a deadline. The caller handles the errors.

    Args:
        service: The service.
        action: The failure, for the log.
    """

    def __init__(self, service: Service, action: str) -> None:
        self._service, self._action = service, action
        self.reset()

    def reset(self) -> None:
        """Reset the backoff and the deadline, after a success."""
        self._deadline, self._pause = math.inf, _FIRST_PAUSE

    async def failed(self, error: Exception) -> None:
        """Sleep until the next attempt. Raises the error if it is not transient, or after the deadline."""
        now = time.monotonic()
        self._deadline = min(self._deadline, now + PATIENCE)
        if not self._service.is_transient(error) or now + self._pause > self._deadline:
            raise error
        log.info("%s: %s; next attempt follows: %s", self._service.backend, self._action, self._service.reason(error))
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - jitter: many callers may fail at once

"""A cloud service: its errors in our words, and calls that are made again while it is away for a moment."""

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
"""Seconds in which a call is tried again. The pause between two attempts doubles each time."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

log = logger(__name__)


class Service(ABC):
    """The service of one backend, as its client library reaches it."""

    backend: ClassVar[str]
    title: ClassVar[str]
    """The service's own name."""
    how_to_log_in: ClassVar[str]
    errors: ClassVar[tuple[type[Exception], ...]]
    """The errors that the client raises: its own, and those of the network under it."""
    not_found: ClassVar[type[Exception]]
    """The one of them that is raised for a target that does not exist."""
    not_logged_in: ClassVar[type[Exception]]
    """The one of them that is raised for credentials that are missing or refused."""
    unimplemented: ClassVar[tuple[type[Exception], ...]] = ()
    """Those of them that are raised for what the service does not offer."""

    @abstractmethod
    def has_credentials(self) -> bool:
        """Return whether credentials are configured. They are not tried."""

    @abstractmethod
    def secrets(self) -> Iterable[str]:
        """Return the credentials, which no error may quote."""

    @abstractmethod
    def may_pass(self, error: BaseException) -> bool:
        """Return whether a call that failed so may succeed a moment later."""

    def check_credentials(self) -> None:
        """Look for credentials, without trying them.

        Raises:
            EnvironmentStartError: There are none.
        """
        if not self.has_credentials():
            raise EnvironmentStartError(f"backend {self.backend!r} has no credentials: {self.how_to_log_in}")

    def reason(self, error: BaseException) -> str:
        """Return the service's own words for an error, without credentials that they may quote."""
        text = str(error).strip() or type(error).__name__
        for secret in self.secrets():
            text = text.replace(secret, "***")
        return text

    @contextlib.contextmanager
    def reported(self, what: str) -> Iterator[None]:
        """Turn an error of the service into one of ours.

        Args:
            what: What could not be done.

        Raises:
            EnvironmentStartError: The service refused, or could not be reached.
            UnsupportedError: It does not offer what was asked for.
        """
        try:
            yield
        except self.not_logged_in as error:
            self.check_credentials()
            raise EnvironmentStartError(
                f"backend {self.backend!r}: the credentials are not taken ({self.reason(error)}): {self.how_to_log_in}"
            ) from None
        except self.unimplemented as error:
            raise UnsupportedError(f"backend {self.backend!r}: {what}: {self.reason(error)}") from None
        except self.errors as error:
            raise EnvironmentStartError(f"backend {self.backend!r}: {what}: {self.reason(error)}") from None

    @contextlib.contextmanager
    def answered(self, what: str) -> Iterator[None]:
        """Turn an error of a call to a target that runs into one of ours.

        Args:
            what: What could not be done.

        Raises:
            TerminalError: The call failed.
        """
        try:
            yield
        except self.errors as error:
            raise TerminalError(f"backend {self.backend!r}: {what}: {self.reason(error)}") from None

    async def retried(self, call: Callable[[], Awaitable[T]], what: str) -> T:
        """Return what a call returns, after further attempts if need be. Raises what the last one does.

        Args:
            call: What to do. It must be harmless to do it twice.
            what: What could not be done, for the log.
        """
        attempts = Attempts(self, what)
        while True:
            try:
                return await call()
            except Exception as error:
                await attempts.failed(error)


class Attempts:
    """The attempts of one call, whose errors the caller handles: pauses between them, and a deadline.

    Args:
        service: The service that is called.
        what: The failure, for the log.
    """

    def __init__(self, service: Service, what: str) -> None:
        self._service, self._what = service, what
        self.reset()

    def reset(self) -> None:
        """Begin anew, after a success."""
        self._deadline, self._pause = math.inf, _FIRST_PAUSE

    async def failed(self, error: Exception) -> None:
        """Sleep until the next attempt. The error is raised if it will not pass, or there was patience enough."""
        now = time.monotonic()
        self._deadline = min(self._deadline, now + PATIENCE)
        if not self._service.may_pass(error) or now + self._pause > self._deadline:
            raise error
        log.info("%s: %s, and it is tried again: %s", self._service.backend, self._what, self._service.reason(error))
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - many who failed should not come back together

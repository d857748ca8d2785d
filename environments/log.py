"""Logging without secrets."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


def redact(record: logging.LogRecord) -> bool:
    """Redact the secrets of all environments in a log record, before any handler. Always returns True.

    The filter of all our loggers. Add the same filter to handlers that receive other records.
    """
    import logging

    from environments.redaction import without_secrets  # with the first record

    message = record.getMessage()
    if (shown := without_secrets(message)) != message:
        record.msg, record.args = shown, ()
    if record.exc_info:
        trace = logging.Formatter().formatException(record.exc_info)
        if (shown := without_secrets(trace)) != trace:
            record.exc_text, record.exc_info = shown, None
    return True


class Log:
    """A logger of the standard library, created with the first record: importing `logging` is slow.

    Args:
        name: Name of the logger.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._made: logging.Logger | None = None

    def debug(self, message: str, *values: object, exc_info: bool | BaseException = False) -> None:
        """Log details for debugging this package."""
        if self._is_heard:
            self._logger.debug(message, *values, exc_info=exc_info, stacklevel=2)

    def info(self, message: str, *values: object, exc_info: bool | BaseException = False) -> None:
        """Log a notable event."""
        if self._is_heard:
            self._logger.info(message, *values, exc_info=exc_info, stacklevel=2)

    def warning(self, message: str, *values: object, exc_info: bool | BaseException = False) -> None:
        """Log a problem that needs attention."""
        self._logger.warning(message, *values, exc_info=exc_info, stacklevel=2)

    def error(self, message: str, *values: object, exc_info: bool | BaseException = False) -> None:
        """Log a failure."""
        self._logger.error(message, *values, exc_info=exc_info, stacklevel=2)

    def exception(self, message: str, *values: object) -> None:
        """Log an error with the exception being handled."""
        self._logger.exception(message, *values, stacklevel=2)

    @property
    def _is_heard(self) -> bool:
        """True if `logging` is imported: before that no handler for these levels can exist."""
        return "logging" in sys.modules

    @property
    def _logger(self) -> logging.Logger:
        if self._made is None:
            import logging

            self._made = logging.getLogger(self._name)
            self._made.addFilter(redact)  # filters of a logger do not apply to its children
        return self._made


def logger(name: str) -> Log:
    """Return the logger of a module, by its `__name__`."""
    return Log(name)


_lock = threading.Lock()
_warned: set[str] = set()
"""Subjects of the warnings logged once by this process."""


def warn_once(about: str, message: str) -> None:
    """Log a warning, once for each subject and process.

    Args:
        about: The subject.
        message: The warning.
    """
    with _lock:
        if about in _warned:
            return
        _warned.add(about)
    logger(__name__).warning("%s", message)

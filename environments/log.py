"""Loggers whose records hold no secret."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


def redacted(record: logging.LogRecord) -> bool:
    """Take the secrets of all environments out of a record, before any handler gets it, and let it pass.

    It is the filter of all our loggers, and for a handler that may get the records of others.
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
    """A logger of the standard library, made when it first has something to say: to import that takes its time.

    Args:
        name: The logger's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._made: logging.Logger | None = None

    def debug(self, message: str, *values: object, exc_info: bool | BaseException = False) -> None:
        """Log what is of use to who looks for an error of ours."""
        if self._is_heard:
            self._logger.debug(message, *values, exc_info=exc_info, stacklevel=2)

    def info(self, message: str, *values: object, exc_info: bool | BaseException = False) -> None:
        """Log what is worth to know."""
        if self._is_heard:
            self._logger.info(message, *values, exc_info=exc_info, stacklevel=2)

    def warning(self, message: str, *values: object, exc_info: bool | BaseException = False) -> None:
        """Log what somebody should look at."""
        self._logger.warning(message, *values, exc_info=exc_info, stacklevel=2)

    def error(self, message: str, *values: object, exc_info: bool | BaseException = False) -> None:
        """Log what has failed."""
        self._logger.error(message, *values, exc_info=exc_info, stacklevel=2)

    def exception(self, message: str, *values: object) -> None:
        """Log an error along with the exception that is being handled."""
        self._logger.exception(message, *values, stacklevel=2)

    @property
    def _is_heard(self) -> bool:
        """Whether anybody could have asked for less than warnings: not before there is anything to ask."""
        return "logging" in sys.modules

    @property
    def _logger(self) -> logging.Logger:
        if self._made is None:
            import logging

            self._made = logging.getLogger(self._name)
            self._made.addFilter(redacted)  # a logger's filters do not hold for those below it, so that each needs it
        return self._made


def logger(name: str) -> Log:
    """Return the logger of a module, by its `__name__`."""
    return Log(name)


_lock = threading.Lock()
_warned: set[str] = set()
"""The subjects of the warnings that this process has logged once."""


def warn_once(about: str, message: str) -> None:
    """Log a warning, unless this process has logged one about the same.

    Args:
        about: The subject.
        message: The warning.
    """
    with _lock:
        if about in _warned:
            return
        _warned.add(about)
    logger(__name__).warning("%s", message)

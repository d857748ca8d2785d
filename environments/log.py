"""Loggers whose records hold no secret."""

from __future__ import annotations

import logging

from environments.secret_values import SecretValues

_FORMATTER = logging.Formatter()


class _Redacting(logging.Filter):
    """Takes out of a record the secrets of all environments, before any handler gets it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass."""
        from environments.redaction import Redactor  # with the first record

        redactor = Redactor.of(SecretValues.of_all())
        message = record.getMessage()
        if (shown := redactor.text(message)) != message:
            record.msg, record.args = shown, ()
        if record.exc_info:
            trace = _FORMATTER.formatException(record.exc_info)
            if (shown := redactor.text(trace)) != trace:
                record.exc_text, record.exc_info = shown, None
        return True


REDACTING = _Redacting()
"""The filter of all our loggers, for a handler that may get the records of others."""


def logger(name: str) -> logging.Logger:
    """Return the logger of a module, by its `__name__`."""
    found = logging.getLogger(name)
    found.addFilter(REDACTING)  # a logger's filters do not hold for those below it, so that each needs it
    return found

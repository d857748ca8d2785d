"""The log of this package on standard error: all records for `-vv`, otherwise only the keys of new SSH hosts."""

from __future__ import annotations

import logging
import sys

from environments.log import redact
from environments.model_view import plain
from hermes_env.cli.errors import print_message

PACKAGES = ("environments", "rpc", "hermes_tools", "code_execution", "hermes_env")
_LOGIN = "environments.ssh.login"
_FORMAT = "hermes-env: %(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"


def log_to_stderr() -> None:
    """Print all records of this package's loggers to standard error, without secrets. Idempotent."""
    handler = _StderrHandler()
    for name in PACKAGES:
        logger = logging.getLogger(name)
        if not any(isinstance(each, _StderrHandler) for each in logger.handlers):
            logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)


def show_new_host_keys() -> None:
    """Print a line for each accepted key of an unknown SSH host, unless `-vv` prints all records. Idempotent."""
    logger = logging.getLogger(_LOGIN)
    if not any(isinstance(each, _NewHostKeys) for each in logger.handlers):
        logger.addHandler(_NewHostKeys(logging.WARNING))


class _NewHostKeys(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if not any(isinstance(each, _StderrHandler) for each in logging.getLogger(PACKAGES[0]).handlers):
            print_message(plain(record.getMessage()), "yellow")


class _StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]  # not generic at run time
    """Prints records without terminal controls, which an engine may have sent."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter(_FORMAT, "%H:%M:%S"))
        # The loggers of a separately installed backend may not redact secrets.
        self.addFilter(redact)

    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))

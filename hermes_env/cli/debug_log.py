"""The log of this package on standard error: all of it for `-vv`, else the keys of new SSH hosts."""

from __future__ import annotations

import logging
import sys

from environments.log import redact
from environments.model_view import plain
from hermes_env.cli.errors import tell

PACKAGES = ("environments", "rpc", "hermes_tools", "code_execution", "hermes_env")
_LOGIN = "environments.ssh.login"
_FORMAT = "hermes-env: %(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"


def log_to_stderr() -> None:
    """Show all records of this package's loggers on standard error, without secrets. Once is enough."""
    handler = _StderrHandler()
    for name in PACKAGES:
        logger = logging.getLogger(name)
        if not any(isinstance(each, _StderrHandler) for each in logger.handlers):
            logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)


def show_new_host_keys() -> None:
    """Write a line for each key of an unknown SSH host that is accepted, unless `-vv` shows it. Once is enough."""
    logger = logging.getLogger(_LOGIN)
    if not any(isinstance(each, _NewHostKeys) for each in logger.handlers):
        logger.addHandler(_NewHostKeys(logging.WARNING))


class _NewHostKeys(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if not any(isinstance(each, _StderrHandler) for each in logging.getLogger(PACKAGES[0]).handlers):
            tell(plain(record.getMessage()), "yellow")


class _StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]  # it is no generic where it runs
    """Writes records line by line, without controls of a terminal that an engine may have put there."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter(_FORMAT, "%H:%M:%S"))
        # Records of a backend that is installed apart may come from a logger that takes out nothing itself.
        self.addFilter(redact)

    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))

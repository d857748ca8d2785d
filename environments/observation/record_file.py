"""The file of a record: whose it has to be, and adding a line to it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from environments.errors import SettingsError
from environments.log import logger

if TYPE_CHECKING:
    from pathlib import Path

_log = logger(__name__)
_ADD = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Neither a link is followed, nor is the reader of a pipe waited for."""


class RecordFile:
    """A file that lines are added to. It is opened for each, so that nothing stays open and a fork shares nothing.

    Lines of several threads and processes do not mix: each is one write to the file's end.
    """

    def __init__(self, path: Path) -> None:
        """Make the file, for this user alone, unless there is one.

        Raises:
            SettingsError: It cannot be written to, or is not one to write a record to.
        """
        self._path = path
        self._has_failed = self._is_torn = False
        try:
            os.close(self._opened(os.O_CREAT))
        except OSError as error:
            why = "it is a link" if error.errno == errno.ELOOP else error.strerror
            raise SettingsError(f"the record {path} cannot be written: {why}; give the path of another file") from error

    def _opened(self, more: int = 0) -> int:
        descriptor = os.open(self._path, _ADD | more, 0o600)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is no regular file")
            if status.st_uid != os.geteuid():
                raise PermissionError(errno.EPERM, "it belongs to another user")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def add(self, line: bytes) -> None:
        """Add a line, with its end. What is in the way is logged once; nothing is raised for it."""
        try:
            descriptor = self._opened()
            try:
                # Behind a line of which a part is missing, such as on a full disk, the next one begins anew.
                data = b"\n" + line if self._is_torn else line
                written = os.write(descriptor, data)
                self._is_torn = written < len(data)
                if self._is_torn:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                _log.warning("the record %s cannot be written any more, and has gaps: %s", self._path, error.strerror)

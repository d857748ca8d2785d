"""What a shell has to be sent for a call."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from environments.call import Call
from environments.errors import TerminalError
from environments.shell.dialect.bash import Bash
from environments.shell.request import Request, Where
from environments.shell.scratch import Scratch
from environments.shell.target_shells import TargetShells

LONG_COMMAND = 32 * 1024
"""Characters above which a command travels as a file, to a shell that can only read it piece by piece."""

_NONE: Mapping[str, str] = MappingProxyType({})
_Sent = TypeVar("_Sent")


class Requests:
    """Makes requests; what they need as files is put into the target.

    Args:
        shells: Say what kind of shell there is.
        scratch: Where the files go.
    """

    def __init__(self, shells: TargetShells, scratch: Scratch) -> None:
        self._shells = shells
        self._scratch = scratch

    def sent(
        self,
        call: Call,
        where: Where,
        send: Callable[[Request], _Sent],
        separate: bool | None = None,
        exports: Mapping[str, str] = _NONE,
    ) -> _Sent:
        """Make a request and send it; its files are removed if that fails.

        Args:
            call: What is asked for, with a directory that means the same in the shell that it goes to.
            where: Which process runs it.
            send: Sends it.
            separate: Whether stderr is kept apart; None is as the call says.
            exports: What the shell is to export before, see `Request`.
        """
        files: list[str] = []
        try:
            apart = call.separate if separate is None else separate
            return send(self._request(call, where, apart, exports, files))
        except BaseException:
            for file in files:
                with contextlib.suppress(TerminalError):
                    self._scratch.remove(file)
            raise

    def _request(
        self, call: Call, where: Where, separate: bool, exports: Mapping[str, str], files: list[str]
    ) -> Request:
        command, stdin_file, command_file = call.command, None, None
        if call.stdin:
            stdin_file = self._scratch.put(call.stdin)
            files.append(stdin_file)
        if len(command) > LONG_COMMAND and self._shells.dialect is not Bash:
            command_file = self._scratch.put(command.encode("utf-8", "surrogateescape"))
            files.append(command_file)
            command = ""
        return Request(command, where, call.cwd, call.env, stdin_file, separate, exports, command_file)

    def beside(self, call: Call, session_cwd: str) -> Call:
        """Return a call for a shell that is not the session's: its directory is taken from that of the session."""
        cwd = call.cwd or session_cwd
        home = cwd == "~" or cwd.startswith("~/")
        return call.at(cwd if home else posixpath.join(session_cwd, cwd))

    def directory(self, cwd: str) -> str:
        """Return the directory of such a call as an absolute path."""
        return self._shells.home + cwd[1:] if cwd == "~" or cwd.startswith("~/") else cwd

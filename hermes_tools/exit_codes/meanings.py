"""What exit codes mean that are no errors, or that say more than that something went wrong."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING

from environments.result import TIMEOUT_EXIT_CODE

if TYPE_CHECKING:
    from hermes_tools.exit_codes.last_command import LastCommand

_NO_LINE = {1: "no line matched, which is no error"}
_DIFFERENT = {1: "the two differ, which is no error"}
_FALSE = {1: "the condition is false, which is no error"}
_NO_PROCESS = {1: "no process matched, which is no error"}
_NOT_FOUND = {1: "not all that was looked for was found, which is no error"}
_PYTEST = {
    1: "some tests failed",
    2: "it was interrupted, or tests could not be collected",
    4: "its command line was not understood",
    5: "no tests were collected, which is no failure of a test",
}
_CURL = {
    6: "the host's name could not be resolved",
    7: "no connection could be made to the host",
    22: "the server answered with an HTTP status of 400 or above",
    28: "its own time-out was reached",
    35: "the TLS handshake failed",
    47: "there were too many redirects",
    52: "the server answered nothing",
    56: "the connection broke while data was received",
    60: "the server's certificate could not be verified",
}
_OF_PROGRAM: Mapping[str, Mapping[int, str]] = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "ugrep"), _NO_LINE),
    **dict.fromkeys(("diff", "cmp", "colordiff", "zdiff", "zcmp", "sdiff"), _DIFFERENT),
    **dict.fromkeys(("test", "[", "[["), _FALSE),
    **dict.fromkeys(("pgrep", "pidof", "pkill", "killall"), _NO_PROCESS),
    **dict.fromkeys(("which", "type"), _NOT_FOUND),
    **dict.fromkeys(("pytest", "py.test"), _PYTEST),
    "find": {1: "some places could not be read; what it has found elsewhere is complete"},
    "curl": _CURL,
    "expr": {1: "the value is 0 or empty, which is no error"},
    "read": {1: "the end of the input was reached"},
    "xargs": {123: "the command that it ran has failed for some of its arguments"},
    "rsync": {23: "some files could not be copied", 24: "some files vanished before they were copied"},
    "ssh": {255: "the connection to the host failed, or the command there ended with 255"},
    "systemctl": {3: "a unit is not active"},
    "unittest": {5: "no tests were run, which is no failure of a test"},
}
_OF_GIT: Mapping[str, Mapping[int, str]] = {
    "grep": _NO_LINE,
    "diff": _DIFFERENT,
    "merge-base": {1: "the first is no ancestor of the second, or there is no common one, which is no error"},
    "config": {1: "the key is not set, which is no error"},
    "show-ref": _NOT_FOUND,
    "check-ignore": {1: "none of the paths is ignored, which is no error"},
    "ls-remote": {2: "no reference matched, which is no error"},
}
_OF_ANY: Mapping[int, str] = {
    126: "the program was found, but could not be executed: it is no program, or there is no permission",
    127: "the program was not found",
}


def meaning_of(command: str, exit_code: int, workdir: str | None = None) -> str | None:
    """Say what an exit code means where that is no error, or not plain to see. None if there is nothing to say.

    Args:
        command: The shell text. The last command of its last pipeline decides.
        exit_code: What it ended with.
        workdir: A directory that had to be entered before; what cannot be is exit code 1 too.
    """
    if exit_code == 0:
        return None
    # With the first command that fails, as it takes all that reads shell text.
    from hermes_tools.exit_codes.last_command import last_command

    last = last_command(command)
    if last and (meaning := _of(last, exit_code)):
        unless = "; unless something before its && has failed" if last.conditional else ""
        if workdir is not None and exit_code == 1:
            unless += f"; unless {workdir} could not be entered"
        return f"exit code {exit_code} of {_module(last.words) or last.name}: {meaning}{unless}"
    if general := _OF_ANY.get(exit_code) or _of_signal(exit_code):
        return f"exit code {exit_code}: {general}"
    return None


def _of(last: LastCommand, exit_code: int) -> str | None:
    if exit_code == TIMEOUT_EXIT_CODE and last.front == "timeout":
        return "timeout has ended it, as its time was up"
    if last.name == "git":
        return _OF_GIT.get(_subcommand(last.words), {}).get(exit_code)
    if last.name == "command" and exit_code == 1:
        return _NOT_FOUND[1]
    return _OF_PROGRAM.get(_module(last.words) or last.name, {}).get(exit_code)


def _subcommand(words: tuple[str, ...]) -> str:
    """Return what git is told to do: its first argument that is neither an option nor the value of one."""
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in ("-C", "-c", "--git-dir", "--work-tree") else 1]
    return rest[0] if rest else ""


def _module(words: tuple[str, ...]) -> str:
    """Return the module that Python runs by `-m`, or nothing."""
    if not words[0].rpartition("/")[2].startswith(("python", "pypy")) or "-m" not in words[1:-1]:
        return ""
    return words[words.index("-m") + 1]


def _of_signal(exit_code: int) -> str | None:
    number = exit_code - 128
    if number not in {known.value for known in signal.valid_signals() if isinstance(known, signal.Signals)}:
        return None
    name = signal.Signals(number).name
    more = {
        "SIGKILL": ", as happens when memory runs out",
        "SIGPIPE": ": what it wrote to has ended, as `head` does",
        "SIGSEGV": ": it has crashed",
        "SIGABRT": ": it has crashed",
    }
    return f"it was ended by signal {number} ({name}){more.get(name, '')}"

"""Init files: the login shell's and the settings' files, sourced at the start of a session."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from environments.errors import EnvironmentStartError
from environments.log import logger
from environments.plain_number import plain_number
from environments.process import GRACE
from environments.shell.dialect.base import Dialect, ShellRequest, Where, directory_word
from environments.shell.output import Outcome, Output
from environments.shell.pool import Shells
from environments.shell.run import Running, outcome_of
from environments.shell.shell import Shell
from environments.shell.state import SessionState, with_variables_of
from environments.starting import stop_reason, stopped_error

if TYPE_CHECKING:
    from environments.settings import EnvironmentSettings

log = logger(__name__)

OPTIONAL = "-"
"""Prefix of a file that may be missing or fail."""
SYSTEM_PROFILE = "/etc/profile"
USER_PROFILES: Mapping[str, tuple[str, ...]] = {
    "bash": ("~/.bash_profile", "~/.bash_login", "~/.profile"),
    "sh": ("~/.profile",),
}
"""A login shell sources the first readable file."""
TAIL = 2000
"""Bytes kept of a file's output, for an error or the log."""
_RESET = "euvx"
"""Options reset after a file: with these, later commands would end the session's shell or print more."""
IS_NO_FILE, IS_MISSING = "e", "m"


class InitFile(NamedTuple):
    """One init file."""

    path: str
    """`~` is the target user's home."""
    optional: bool = False
    """True if the file may be missing or fail. Effects before the failure stay, and the rest continues."""
    is_profile: bool = False
    """True if a failing last command causes no warning: profiles often end in a test."""


class InitFiles:
    """Sources init files in a session's first shell in a target.

    Args:
        shells: Pass the files' exports to shells beside the session.
        settings: The files and the time-out for each.
    """

    def __init__(self, shells: Shells, settings: EnvironmentSettings) -> None:
        self._shells = shells
        self._backend = settings.env
        self._login = settings.login_shell
        self._named = [InitFile(path.removeprefix(OPTIONAL), path.startswith(OPTIONAL)) for path in settings.init_files]
        self._limit = settings.init_timeout

    async def source(
        self,
        shell: Shell,
        given: Collection[str],
        again: Callable[[Shell], Awaitable[Shell]],
        interrupted: Callable[[], bool],
    ) -> Shell:
        """Source the files in a new shell, and return the shell to go on with.

        Args:
            shell: The shell, ended on any error.
            given: Names of the shell's passed-through variables.
            again: Opens a shell with the last reported state of an ended shell.
            interrupted: Returns True to end the wait.

        Raises:
            EnvironmentStartError: A file is missing, has ended the shell, or did not end in time.
            StartStoppedError: The start was interrupted.
        """
        unwanted = _Unwanted(interrupted)
        try:
            files = await self._found(shell, unwanted)
            await shell.report()
            before = shell.reported
            for file in files:
                shell = await self._sourced(file, shell, again, unwanted)
            await shell.report()
            exports = with_variables_of(shell.reported, SessionState(), given).exports
            self._shells.base = before._replace(exports=exports)
        except BaseException:
            await self._shells.end(shell)
            raise
        return shell

    async def _found(self, shell: Shell, unwanted: _Unwanted) -> list[InitFile]:
        """Return the existing files.

        Raises:
            EnvironmentStartError: A file of the settings is missing or unreadable.
        """
        profiles = [(SYSTEM_PROFILE,), USER_PROFILES[shell.dialect.name]] if self._login else []
        choices = [[InitFile(path, is_profile=True) for path in paths] for paths in profiles]
        choices += [[file] for file in self._named]
        said, _ = await self._run(shell, _choosing(shell.dialect, choices), unwanted)
        if len(said) != len(choices):
            raise self._error(f"the shell cannot list the init files: {said!r}", "see its output")
        for (file, *_), letter in zip(choices[len(profiles) :], said[len(profiles) :], strict=True):
            if not letter.isdigit() and not file.optional:
                problem = "cannot be read, or is no file" if letter == IS_NO_FILE else "does not exist"
                raise self._error(f"the init file {file.path} {problem}", "create it, or remove it from init_files")
        return [files[int(letter)] for files, letter in zip(choices, said, strict=True) if letter.isdigit()]

    async def _sourced(
        self, file: InitFile, shell: Shell, again: Callable[[Shell], Awaitable[Shell]], unwanted: _Unwanted
    ) -> Shell:
        """Source one file, and return the shell to go on with. Raises as `source` does."""
        printed, outcome = await self._run(shell, _sourcing(shell.dialect, file.path), unwanted)
        tail = f"; it printed: {printed[-TAIL:]}" if (printed := printed.strip()) else "; it printed nothing"
        if shell.is_idle and not outcome.reason:
            if outcome.exit_code:
                level = log.info if file.optional or file.is_profile else log.warning
                level("backend %r: the init file %s failed%s", self._backend, file.path, tail)
            return shell
        if outcome.reason:
            said = f"the init file {file.path} did not end within {plain_number(self._limit)} s, and was ended{tail}"
            remedy = "have it wait for nothing, set init_timeout higher"
        else:
            said = f"the init file {file.path} ended the shell that sourced it{tail}"
            remedy = "have it `return` instead of `exit`, and run no command with `exec`"
        if not file.optional:
            raise self._error(said, f"{remedy}, or name it as {OPTIONAL}{file.path} to go on without the rest of it")
        log.warning("backend %r: %s; the session goes on without the rest of it", self._backend, said)
        return shell if shell.is_idle else await again(shell)

    async def _run(self, shell: Shell, text: str, unwanted: _Unwanted) -> tuple[str, Outcome]:
        """Run internal text in a shell, and return its output and its outcome."""
        self._shells.life.check_wanted(unwanted.interrupted)
        output = Output(2 * TAIL)
        # cwd "." restores the directory afterwards: a file's `cd` does not move the session.
        request = ShellRequest(text, Where.MAIN, cwd=".")
        running = Running(shell, request, output, GRACE, self._shells.control)
        outcome = await outcome_of(running, output, self._limit, unwanted)
        if outcome.reason == "interrupt":
            self._shells.life.check_wanted(unwanted.interrupted)
            raise stopped_error(self._backend, "it was interrupted")
        return output.stdout.text().text, outcome

    def _error(self, said: str, remedy: str) -> EnvironmentStartError:
        return EnvironmentStartError(f"backend {self._backend!r}: {said}; {remedy}")


class _Unwanted(threading.Event):
    """Set once no caller waits for the session.

    Args:
        interrupted: Returns True if the session's command was interrupted.
    """

    def __init__(self, interrupted: Callable[[], bool]) -> None:
        super().__init__()
        self.interrupted = interrupted

    def is_set(self) -> bool:
        return self.interrupted() or stop_reason() is not None


def _choosing(dialect: Dialect, choices: list[list[InitFile]]) -> str:
    """Return text to print a character for each choice: the index of the first readable file, or a reason."""
    test, say = f"{dialect.call} test", f"{dialect.call} printf"
    text = ""
    for files in choices:
        for number, word in enumerate(_word(file.path) for file in files):
            text += f"{'elif' if number else 'if'} {test} -r {word} && {test} ! -d {word}; then {say} {number}\n"
        first = _word(files[0].path)
        text += f"elif {test} -e {first}; then {say} {IS_NO_FILE}; else {say} {IS_MISSING}; fi\n"
    return text


def _word(path: str) -> str:
    return directory_word(path) if path.startswith("~/") else shlex.quote(path)


def _sourcing(dialect: Dialect, path: str) -> str:
    """Return text to source a file, with the file's success.

    In front of `||`, a failing command in the file does not end a bash with `set -e`. With a `builtin` prefix it would.
    """
    flags, code = f"{dialect.words}_f", f"{dialect.words}_s"
    reset = "".join(
        f"case ${flags} in *{flag}*) {dialect.call} set -{flag} ;; *) {dialect.call} set +{flag} ;; esac\n"
        for flag in _RESET
    )
    return (
        f"{flags}=$- {code}=0\n"
        f"\\command . {_word(path)} || {code}=1\n"
        f"{reset}"
        f"case ${code} in 0) {dialect.call} unset -v {flags} {code} ;; "
        f"*) {dialect.call} unset -v {flags} {code}; {dialect.call} false ;; esac"
    )

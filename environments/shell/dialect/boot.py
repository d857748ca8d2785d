"""How a process in the target becomes a shell of ours."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from environments.clean_environment import running_clean
from environments.owner import MARKER_VARIABLE
from environments.shell.dialect.base import Dialect
from environments.shell.dialect.bash import Bash
from environments.shell.dialect.commands import branding, environment_of
from environments.shell.dialect.posix import Posix
from environments.shell.state import SessionState

DIALECTS: dict[str, type[Dialect]] = {dialect.name: dialect for dialect in (Bash, Posix)}

_BEST = """\
if command -v bash >/dev/null 2>&1; then exec bash --noprofile --norc; fi
exec sh"""
_BOOT = f'export {MARKER_VARIABLE}="$0"\n'

_BEST_ON_TERMINAL = """\
if command -v bash >/dev/null 2>&1; then exec bash --noprofile --norc 2>/dev/null; fi
exec sh +i 2>/dev/null"""
_BOOT_ON_TERMINAL = f"""\
case ${{TERM:-dumb}} in dumb) TERM=xterm-256color ;; esac
export {MARKER_VARIABLE}="$0" TERM
stty raw -echo
printf ok
"""
"""On a terminal bash would be interactive by its stderr, and other shells by their stdout: none of them may be."""
_IS_BASH = '[ -n "${BASH_VERSION-}" ] && case $BASH_VERSION in [0-3].*|4.[0-3].*) false ;; esac'


def boot_argv(marker: str, terminal: bool = False, scrub: bool = False) -> list[str]:
    """Return the program that becomes the best shell of the target. It is visible there, and holds nothing secret.

    Args:
        marker: What its marker variable begins with.
        terminal: Whether it is on a terminal.
        scrub: Whether of the target's variables it sees the harmless ones alone.
    """
    boot, best = (_BOOT_ON_TERMINAL, _BEST_ON_TERMINAL) if terminal else (_BOOT, _BEST)
    boot = branding(environment_of(marker)) + boot
    if scrub:
        best = running_clean(f"/bin/sh -c {shlex.quote(best)}")
    return ["/bin/sh", "-c", boot + best, marker]


class Prelude:
    """The first text for a new shell.

    Args:
        marker: What the marker variable begins with for every command of this shell.
        known: Which kind of shell it is. When that is not known both kinds are sent, and each takes its own.
        byte_by_byte: Whether its script comes through a terminal, whose ways a reader of many bytes would change.
    """

    def __init__(self, marker: str, known: type[Dialect] | None, byte_by_byte: bool = False) -> None:
        self.nonce = os.urandom(8).hex()
        self._known = known
        self._byte_by_byte = byte_by_byte
        words = f"_{os.urandom(2).hex()[:3]}"  # short, as it is read byte by byte
        self._dialects = {name: kind(self.nonce, marker, words) for name, kind in DIALECTS.items()}

    def dialect(self, name: str) -> Dialect:
        """Return how to speak to the shell, once it has said what it is."""
        return self._dialects[name]

    def text(
        self,
        state: SessionState,
        functions: bool,
        cwd: str | None,
        nowhere: str | None,
        exports: Mapping[str, str],
    ) -> str:
        """Return the text.

        Args:
            state: The state of an earlier shell, to go on from.
            functions: Whether to bring back functions and aliases too.
            cwd: The directory to start in; None is where the process starts.
            nowhere: See `Dialect.opening`.
            exports: Variables to begin with.
        """

        def whole(dialect: Dialect) -> str:
            restoring = dialect.restoring(state, functions=functions)
            opening = dialect.opening(state.variables.get("OLDPWD", ""), restored=bool(restoring))
            entering = dialect.entering(cwd, nowhere)
            exporting = dialect.exporting(exports)
            home = exporting if cwd and cwd.startswith("~") else ""  # which may be another user's
            return "\n".join([dialect.definitions(), home, entering, restoring, exporting, dialect.first(), opening])

        if self._known:
            dialect = self._dialects[self._known.name]
            return whole(dialect) if self._byte_by_byte else dialect.at_once(whole(dialect))
        texts = {name: whole(dialect) for name, dialect in self._dialects.items()}
        return self._for_either(texts[Bash.name], texts[Posix.name])

    def _for_either(self, bash: str, posix: str) -> str:
        """Return a text of which a bash takes one part, and any other shell the other one."""
        if self._byte_by_byte or not (bash + posix).isascii():
            return f"if {_IS_BASH}; then eval {shlex.quote(bash)}; else eval {shlex.quote(posix)}; fi\n"
        # A bash reads its script byte by byte, at a system call each, unless it is told how much to read. To others,
        # which read it in blocks, its part is a here-document that nobody reads.
        head, end = f": <<'{self.nonce}'\n", f"\n{self.nonce}\n"
        rest = f"{head}{bash}{end}{posix}"
        words = self._dialects[Bash.name].words
        run = shlex.quote(f'\\builtin eval "${{{words}:{len(head)}:{len(bash)}}}"')  # others cannot parse that
        return f"if {_IS_BASH}; then \\builtin read -rN{len(rest)} {words}; eval {run}; fi\n{rest}"

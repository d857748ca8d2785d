"""The boot of a shell: turns a process in the target into bash or sh with internal definitions."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from environments.clean_environment import running_clean
from environments.owner import MARKER_VARIABLE
from environments.shell.dialect.base import Dialect, directory_name
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
"""On a terminal, bash would become interactive by its stderr, and other shells by their stdout: all must be
non-interactive."""
_IS_BASH = '[ -n "${BASH_VERSION-}" ] && case $BASH_VERSION in [0-3].*|4.[0-3].*) false ;; esac'


class BootArgv(list[str]):
    """The program of a new shell: a /bin/sh, replaced by bash if the target has bash.

    Args:
        argv: The program and its arguments.
        marker: The value of the marker variable.
        is_plain: True if the program only finds a shell, sets its marker and brand, and uses pipes.
    """

    def __init__(self, argv: Iterable[str], marker: str, is_plain: bool) -> None:
        super().__init__(argv)
        self.marker = marker
        self.is_plain = is_plain


def boot_argv(marker: str, terminal: bool = False, scrub: bool = False) -> BootArgv:
    """Return the program of a new shell. Other users of the target can see its arguments: they contain no secret.

    Args:
        marker: The value of the marker variable.
        terminal: True for a shell on a terminal.
        scrub: True to pass only the harmless variables of the target.
    """
    boot, best = (_BOOT_ON_TERMINAL, _BEST_ON_TERMINAL) if terminal else (_BOOT, _BEST)
    boot = branding(environment_of(marker)) + boot
    if scrub:
        best = running_clean(f"/bin/sh -c {shlex.quote(best)}")
    return BootArgv(["/bin/sh", "-c", boot + best, marker], marker, is_plain=not (terminal or scrub))


def marked(marker: str, text: str) -> list[str]:
    """Return a marked internal program, started by shell text."""
    return ["/bin/sh", "-c", branding(environment_of(marker)) + _BOOT + text, marker]


class ShellSpec(NamedTuple):
    """The start configuration of a shell."""

    marker: str
    """The prefix of the marker variable for its commands."""
    state: SessionState = SessionState()
    """The state of an earlier shell."""
    functions: bool = True
    """True to restore functions and aliases too."""
    cwd: str | None = None
    """The start directory; None keeps the directory of the started process."""
    nowhere: str | None = None
    """See `Dialect.entering`."""
    exports: Mapping[str, str] = MappingProxyType({})
    """Variables to export."""
    known: type[Dialect] | None = None
    """The dialect, if known from an earlier shell."""
    lags: bool = False
    """True if earlier output may arrive after a request was sent."""
    on_terminal: bool = False
    """True if the stream is a terminal. Its echo must be off before the first byte is sent."""


_NONCE, _MARKER, _WORDS = "hermesnonce", "hermesmarker/1/", "_hermeswords"
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
"""Text with the same quoted and unquoted form."""


def definitions_of(dialect: Dialect) -> str:
    """Return the definitions of a dialect: a cached text with the dialect's own names inserted, as this is faster."""
    own = {directory_name(_MARKER): directory_name(dialect.marker), _MARKER: dialect.marker}
    own |= {_NONCE: dialect.nonce, _WORDS: dialect.words}
    if not all(_PLAIN.fullmatch(name) for name in own.values()):
        return dialect.definitions()
    text = _known_definitions(type(dialect))
    for known, name in own.items():
        text = text.replace(known, name)
    return text


@cache
def _known_definitions(kind: type[Dialect]) -> str:
    return kind(_NONCE, _MARKER, _WORDS).definitions()


class Prelude:
    """The first text for a new shell. If the dialect is unknown, both texts are sent, and the shell runs its own.

    Args:
        spec: The start configuration of the shell.
    """

    def __init__(self, spec: ShellSpec) -> None:
        self.nonce = os.urandom(8).hex()
        self._spec = spec
        words = f"_{os.urandom(2).hex()[:3]}"  # short, as it is read byte by byte
        self._dialects = {name: kind(self.nonce, spec.marker, words) for name, kind in DIALECTS.items()}

    def dialect(self, name: str) -> Dialect:
        """Return the shell's dialect, by the name in its READY."""
        return self._dialects[name]

    def text(self) -> bytes:
        """Return the text."""
        spec = self._spec
        if spec.known:
            dialect = self._dialects[spec.known.name]
            text = self._whole(dialect) if spec.on_terminal else dialect.at_once(self._whole(dialect))
        else:
            text = self._for_either(*(self._whole(self._dialects[kind.name]) for kind in (Bash, Posix)))
        return text.encode("utf-8", "surrogateescape")

    def _whole(self, dialect: Dialect) -> str:
        spec = self._spec
        restoring = dialect.restoring(spec.state, functions=spec.functions)
        opening = dialect.opening(spec.state.variables.get("OLDPWD", ""), restored=bool(restoring))
        entering = dialect.entering(spec.cwd, spec.nowhere)
        exporting = dialect.exporting(spec.exports)
        home = exporting if spec.cwd and spec.cwd.startswith("~") else ""  # may be another user's
        return "\n".join([definitions_of(dialect), home, entering, restoring, exporting, dialect.next(), opening])

    def _for_either(self, bash: str, posix: str) -> str:
        """Return a text with one part for bash, and another for any other shell."""
        # A `read` of many bytes would change the terminal's modes.
        if self._spec.on_terminal or not (bash + posix).isascii():
            return f"if {_IS_BASH}; then eval {shlex.quote(bash)}; else eval {shlex.quote(posix)}; fi\n"
        # A bash reads its script with one system call per byte, unless given a length. Other shells read in blocks, and
        # take bash's part as an unused here-document.
        head, end = f": <<'{self.nonce}'\n", f"\n{self.nonce}\n"
        rest = f"{head}{bash}{end}{posix}"
        words = self._dialects[Bash.name].words
        run = shlex.quote(f'\\builtin eval "${{{words}:{len(head)}:{len(bash)}}}"')  # others cannot parse this
        return f"if {_IS_BASH}; then \\builtin read -rN{len(rest)} {words}; eval {run}; fi\n{rest}"

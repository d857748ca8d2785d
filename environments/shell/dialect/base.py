"""What every kind of shell has to be told, and how a request is put together for it."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import ClassVar

from environments.owner import MARKER_VARIABLE
from environments.shell.framing import FIELDS_OF, WATCHED, Kind
from environments.shell.request import Request, Where
from environments.shell.state import SessionState

NEVER_RESTORED = frozenset({"noexec", "onecmd", "restricted", "interactive"})
"""Options with which a new shell would read nothing more of what we say."""
FINISHING_NAMES = tuple(
    f"{where.value}_{how}" for where in Where if not where.ends_shell for how in ("merge", "separate")
)
"""The names of the texts that stand behind commands, see `finishing_name`."""
_EACH = "_hx_each"
LEAVE_SIGNAL = 50
"""The signal by which the session's shell is told to leave its command: a real-time one, which programs do not send."""
LEFT = 128 + LEAVE_SIGNAL
"""The exit code of a command that was left, which nobody sees unless somebody else has sent that signal."""
SURVIVED = "TERM INT HUP QUIT"
"""Signals that a shell which only forks outlives: those to a group of processes reach it too. What is trapped and not
ignored, its children get as always."""


class Dialect(ABC):
    """How one shell, of one family, is spoken to.

    The shell itself counts the requests that a command runs for, so that most of what a request needs has been done
    behind the end of the one before.

    Args:
        nonce: What its messages begin with.
        marker: What the marker variable begins with for its commands.
        words: What our names in it begin with, which no user's does.
    """

    name: ClassVar[str]
    call: ClassVar[str]
    """What stands in front of a builtin, as users redefine `printf`, `cd` or `trap`, and alias anything."""
    stty: ClassVar[str]
    """How to call the program of that name, whatever PATH is."""
    out: ClassVar[int]
    err: ClassVar[int]
    """The descriptors of the stream's output and of its standard error."""
    leash: ClassVar[int]
    leash_end: ClassVar[int]
    """The descriptor by which a command holds its leash, and the shell's own end of that."""

    reads_ahead: ClassVar[bool]
    """Whether the shell takes more of its script from the stream than it is about to run."""
    can_leave: ClassVar[bool]
    """Whether the shell can leave a command that is to end, and go on. Otherwise it ends with it."""

    def __init__(self, nonce: str, marker: str, words: str) -> None:
        self.nonce = nonce
        self.marker = marker
        self.words = words
        self._usual: dict[str, bytes] = {}
        """What evaluates the commands of usual requests, by `finishing_name`."""

    # What differs.

    @abstractmethod
    def definitions(self) -> str:
        """Return what comes first: it moves the stream to high descriptors and defines what requests make use of."""

    @abstractmethod
    def restoring(self, state: SessionState, *, functions: bool) -> str:
        """Return what brings back the state of an earlier shell, each part under guard.

        Args:
            state: The state.
            functions: Whether functions and aliases are to be among it.
        """

    @classmethod
    @abstractmethod
    def unsetting(cls, name: str, kept: Collection[str]) -> str:
        """Return what unsets all exported variables but some.

        Args:
            name: A variable to make use of.
            kept: Those that stay.
        """

    @abstractmethod
    def first(self) -> str:
        """Return what gets ready for the first command, once the state of an earlier shell is there."""

    @abstractmethod
    def redirecting(self, directory: str) -> str:
        """Return what has the shell speak into the two pipes of a directory from here on, see `outlet`."""

    @abstractmethod
    def new_leash(self) -> str:
        """Return what gives the shell a new leash, so that what is left of earlier commands is not asked for again."""

    @abstractmethod
    def asking_for_leftovers(self, number: int) -> str:
        """Return what makes the shell say whether the last command has left anything, as the END of a request."""

    @abstractmethod
    def _loading(self, request: Request) -> bytes:
        """Return what puts the command into the variable that is evaluated, and opens its input."""

    @abstractmethod
    def _evaluating(self, request: Request) -> str:
        """Return what evaluates that variable."""

    @abstractmethod
    def _redirections(self, request: Request) -> str:
        """Return the redirections that the shell takes back behind the command."""

    @abstractmethod
    def _finishing(self, request: Request) -> str:
        """Return what comes behind a command: it says that this has ended, and gets ready for the next."""

    @abstractmethod
    def _place(self) -> tuple[str, str]:
        """Return the variables for the directory to go back to, and for the one that was before that."""

    # What is the same.

    def alone(self, text: str, number: int) -> str:
        """Return what makes the shell run text of builtins itself and say END, and starts no process for it.

        Args:
            text: The text.
            number: That of the request.
        """
        said = self._say(Kind.END, str(number), "0", "0")
        return f"{{ {text}\n}} </dev/null >&{self.out} 2>/dev/null; {said} >&{self.out}\n"

    def at_once(self, text: str) -> str:
        """Return what makes the shell run a long text of ours, if it can with fewer system calls than one a byte."""
        return text

    def exporting(self, variables: Mapping[str, str], *, unless_set: bool = False) -> str:
        """Return what exports variables for good. With `set -x` a plain sh would say so, with the values.

        Args:
            variables: The variables.
            unless_set: Whether one that is set stays as it is.
        """
        text = ""
        for name, value in variables.items():
            export = f"{self.call} export {name}={shlex.quote(value)} || :"
            text += f"case ${{{name}+x}} in x) ;; *) {export} ;; esac; " if unless_set else f"{export}; "
        return f"{{ {text}}} 2>/dev/null\n" if text else ""

    @classmethod
    def taking_up(cls, exports: Mapping[str, str], kept: Collection[str], command: str) -> str:
        """Return a command for a subshell that begins with what another shell of this kind has exported.

        Args:
            exports: The text of each variable in the report of that shell.
            kept: Variables that stay as they are.
            command: The command.
        """
        unset = f"{cls.unsetting(_EACH, {*kept, *exports})}\n{cls.call} unset -v {_EACH}\n"
        given = "".join(exports.values())
        return f"{{ {unset}{given}}} 2>/dev/null\n:\n{command}"

    def entering(self, cwd: str | None, nowhere: str | None) -> str:
        """Return what follows on the definitions: where to start. An earlier state could be in the way of that.

        Args:
            cwd: The directory to start in; None is where the process starts.
            nowhere: A name to make a directory by that is removed at once, in which to be if `cwd` cannot be entered.
        """
        failed = f"{self.words}_p"
        text = f"{failed}=0\n"
        if cwd:
            away = f"{failed}=1"
            if nowhere:
                place = f'"${{TMPDIR:-/tmp}}/{nowhere}"'
                away += f"; mkdir -m 700 -- {place} && {self.call} cd -- {place} && rmdir -- {place} && {failed}=2"
            text += f"{self.call} cd -- {directory_word(cwd)} || {{ {away}; }}\n"
        return text

    def opening(self, old_cwd: str, *, restored: bool) -> str:
        """Return what follows on an earlier state: that the shell runs.

        Args:
            old_cwd: The directory before that which it is in, where `cd -` goes; empty is none.
            restored: True if there is such a state. Its last command may have had a directory of its own, which its
                variables tell of.
        """
        failed, text = f"{self.words}_p", ""
        if restored:
            text += f"{self.call} cd -- . >/dev/null 2>&1 || :\n"  # has $PWD say where it is
            before = f"OLDPWD={shlex.quote(old_cwd)}" if old_cwd else "unset -v OLDPWD;export OLDPWD"
            text += f"{self.call} eval {shlex.quote(before)} 2>/dev/null || :\n"  # which may be read-only
        values = " ".join(f'"${{{name}-}}"' for name in ("HOME", *WATCHED))
        form = "%s\\0" * (1 + len(WATCHED))
        ready = f"'{self._head(Kind.READY)}%s\\0{self.name}\\0%s\\0{form}'"
        return text + f'{self.call} printf {ready} "$$" "${failed}" {values} >&{self.out}\nunset {failed}\n'

    def request(
        self,
        request: Request,
        number: int,
        *,
        announced: bool = False,
    ) -> bytes:
        """Return what makes the shell run a command.

        Args:
            request: The command.
            number: Which of its requests it is, from 1 on.
            announced: Whether the shell is to say where the output begins.
        """
        before = self.exporting(request.exports, unless_set=True)
        before += self._saying_begin(number, request.separate) if announced else ""
        if number == 1 and request.where in (Where.SUBSHELL, Where.ATTACHED):
            before += f"{self.call} trap : {SURVIVED};"
        first = before.encode("utf-8", "surrogateescape") + self._loading(request)
        if request.cwd is not None or request.env or request.stdin_file or request.where.takes_input:
            return first + self._running(request, number)
        name = finishing_name(request)
        if name not in self._usual:
            self._usual[name] = self._running(request, number)
        return first + self._usual[name]

    def _running(self, request: Request, number: int) -> bytes:
        """Return what evaluates the command, and what is behind that."""
        where = request.where
        command = f"{self._entering(request)}{self._with_variables(request)}{self._evaluating(request)}"
        redirections = self._redirections(request)
        if where.ends_shell:
            return _line(f"{self._last(request, number)};{command} {redirections};{self.call} exit")
        if where is Where.MAIN:
            run = self._there_and_back(request, f"{command} {redirections};{self._finishing(request)}")
        else:
            begin = self._saying_begin(number) if where.takes_input else ""
            run = f"{begin}({command}) {redirections};{self._finishing(request)}"
        # In braces, so that a request of which the end is cut off is an error, and nothing of it runs.
        return _line(f"{{ {run}; }}")

    def _last(self, request: Request, number: int) -> str:
        """Return what comes before the last command of a shell, which ends it."""
        code = f"{self.words}_c"
        said = self._say(Kind.EXIT, str(number), f"${code}", "0")
        aside = f"{said} >&{self.err};" if request.separate else ""
        end, first = f"{self.call} trap {shlex.quote(f'{code}=$?;{aside}{said} >&{self.out}')} EXIT", ""
        if request.where is Where.LAST_ON_TERMINAL:
            # A terminal rewrites line breaks and so messages: there the end is told by the end of the stream.
            end, first = f"{self.call} trap - EXIT", f"{self.stty} sane <&{self.out};"
        return f"{first}{self.call} trap - {LEAVE_SIGNAL} {SURVIVED};{self._saying_begin(number)}{end}"

    def _there_and_back(self, request: Request, text: str) -> str:
        if request.cwd is None:
            return text
        place, before = self._place()
        there = f'{self.call} test "${{{place}}}" -ef .'  # with a PWD that is read-only `cd` goes there, and fails
        back = f'{self.call} cd -- "${{{place}}}" >/dev/null 2>&1 || {there} || {self.call} exit;OLDPWD=${{{before}}}'
        return f"{place}={self._watched('PWD')} {before}=${{OLDPWD-}};{text};{back}"

    def _entering(self, request: Request) -> str:
        """Return what enters the directory of a request. Its error is the command's, and with CDPATH it prints."""
        if request.cwd is None:
            return ""
        err = self.err if request.separate else self.out
        place = directory_word(request.cwd)
        there = f" || {self.call} test {place} -ef ." if request.where is Where.MAIN else ""  # as in `_there_and_back`
        return f"{self.call} cd -- {place} >/dev/null 2>&{err}{there} && "

    @staticmethod
    def _with_variables(request: Request) -> str:
        return "".join(f"{name}={shlex.quote(value)} " for name, value in request.env.items())

    def _head(self, kind: Kind) -> str:
        return f"\\036{self.nonce} {kind.value.decode()}"

    def _say(self, kind: Kind, number: str, code: str, left: str) -> str:
        """Return the command that says END or EXIT."""
        names = FIELDS_OF.get(kind, ())
        form, values = "%s\\0" * len(names), "".join(f' "{self._watched(name)}"' for name in names)
        return f'{self.call} printf \'{self._head(kind)}%s\\0%s\\0%s\\0{form}\' "{number}" "{code}" "{left}"{values}'

    def _watched(self, name: str) -> str:
        """Return what expands to the value of a watched variable."""
        return f"${{{name}-}}"

    def _saying_begin(self, number: int, separate: bool = False) -> str:
        said = f"{self.call} printf '{self._head(Kind.BEGIN)}{number}\\0'"
        return "".join(f"{said} >&{end};" for end in ((self.err, self.out) if separate else (self.out,)))

    def _mark(self, number: str) -> str:
        return f'{self.call} export {MARKER_VARIABLE}="{self.marker}{number}/"'


def _line(text: str) -> bytes:
    return f"{text}\n".encode("utf-8", "surrogateescape")


def directory_word(path: str) -> str:
    """Return a directory as a word of shell text. `~` is the user's home, and a relative one is never looked up."""
    if path == "~" or path.startswith("~/"):
        return '"${HOME-}"' + (shlex.quote(path[1:]) if path[1:] else "")
    return shlex.quote(path if path.startswith("/") else f"./{path}")


def finishing_name(request: Request) -> str:
    """Return the name of the text that stands behind a request's command."""
    return f"{request.where.value}_{'separate' if request.separate else 'merge'}"

"""What every kind of shell has to be told, and how a request is put together for it."""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from environments.owner import MARKER_VARIABLE
from environments.shell.framing import FIELDS_OF, WATCHED, Kind
from environments.shell.state import SessionState, exports_of

NEVER_RESTORED = frozenset({"noexec", "onecmd", "restricted", "interactive"})
"""Options with which a new shell would read nothing more of what we say."""
_EACH = "_hx_each"
LEAVE_SIGNAL, OTHER_LEAVE_SIGNAL = 50, 29
"""The signal by which the session's shell is told to leave its command: a real-time one, which programs do not send.
Where there is none, as on macOS, it is the other: INFO there, which a terminal sends."""
LEFT = 128 + LEAVE_SIGNAL
"""The exit code of a command that was left, which nobody sees unless somebody else has sent that signal."""
SURVIVED = "TERM INT HUP QUIT"
"""Signals that a shell which only forks outlives: those to a group of processes reach it too. What is trapped and not
ignored, its children get as always."""
OF_A_SHELL = frozenset(
    {MARKER_VARIABLE, "PWD", "OLDPWD", "SHLVL", "_", "BASHOPTS", "SHELLOPTS", "UID", "EUID", "PPID", "IFS"}
)
"""Variables that each shell has of its own."""
_OURS = re.compile(r"_[0-9a-f]{3}_[a-z_]+")
"""Names of ours in a plain sh, which `set -a` exports."""


class Where(Enum):
    """Which process runs a command."""

    MAIN = "main"
    """The shell itself, so that what the command changes stays."""
    SUBSHELL = "sub"
    """A fork of the shell, so that nothing stays."""
    ATTACHED = "attached"
    """A fork of the shell with the stream's input as its own. If it succeeds, it has to have read all that was written
    for it, as the shell reads on behind it; if it fails, the shell ends too."""
    LAST = "last"
    """The shell itself, which then ends: the command has the stream's input as its own."""
    LAST_ON_TERMINAL = "tty"
    """The same on a terminal."""

    @property
    def takes_input(self) -> bool:
        """Whether the command has the stream's input as its own. Where its output begins is then always said."""
        return self not in (Where.MAIN, Where.SUBSHELL)

    @property
    def ends_shell(self) -> bool:
        """Whether the shell ends with the command."""
        return self in (Where.LAST, Where.LAST_ON_TERMINAL)


FINISHING_NAMES = tuple(
    f"{where.value}_{how}" for where in Where if not where.ends_shell for how in ("merge", "separate")
)
"""The names of the texts that stand behind commands, see `finishing_name`."""


class Request(NamedTuple):
    """One command, and how to run it."""

    command: str
    where: Where = Where.MAIN
    cwd: str | None = None
    """The directory to run in; `~` is the target user's home. Without it nothing runs. For this command only."""
    env: Mapping[str, str] = MappingProxyType({})
    """Variables for this command only."""
    stdin_file: str | None = None
    """A file of the target that the command reads, and that is removed when it is open."""
    separate: bool = False
    """Whether stderr is kept apart."""
    exports: Mapping[str, str] = MappingProxyType({})
    """Variables that the shell exports before, and keeps; one that it has already stays as it is."""
    command_file: str | None = None
    """A file of the target that holds the command instead, and that is removed before it runs."""
    functions: tuple[str, ...] = ()
    """Definitions that the shell is given before, and keeps. It is not sent those that it has."""


class Item(IntEnum):
    """Our variables in a shell. In a bash they are elements of an array: one digit is read sooner than two."""

    COMMAND = 0
    NUMBER = 1
    CODE = 2
    LEFT = 3
    BEGIN = 4
    FIRST = 5
    FLAGS = 6
    PLACE = 7
    BEFORE = 8
    EXIT = 9
    LEAVE = 10
    SCRIPT = 11
    AGAIN = 12
    UNUSUAL = 13
    WORKS = 14
    IN_FORK = 15
    FUNCTIONS = 16
    ALIASES = 17
    HERE = 18
    ON_TERM = 19
    PIPE = 20
    LEAVE_SIGNAL = 21
    FIRST_TEXT = 22


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
    program: ClassVar[str]
    """What stands in front of a program, whatever PATH is."""
    out: ClassVar[int]
    err: ClassVar[int]
    """The descriptors of the stream's output and of its standard error."""
    stdin: ClassVar[int]
    """The descriptor of the file that a command reads."""
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
    def new_leash(self) -> str:
        """Return what gives the shell a new leash, so that what is left of earlier commands is not asked for again."""

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
    def _item(self, item: int) -> str:
        """Return the name of one of our variables."""

    @abstractmethod
    def _noting_end(self) -> str:
        """Return what notes, behind a command, that it has ended."""

    @abstractmethod
    def _look_for_leftovers(self) -> str:
        """Return what sets `LEFT`: 1 if anything of a command is left, else 0."""

    @abstractmethod
    def _here(self) -> str:
        """Return what sets `HERE` to where the shell is, if not in $PWD: a user may assign, freeze or unset that."""

    @abstractmethod
    def _report(self, how: str) -> str:
        """Return what reports the state on standard error, which is the command's too unless `how` is `merge`."""

    @abstractmethod
    def _arm(self) -> str:
        """Return the traps: one reports how a command ended the shell, the other is how we make a command end."""

    @abstractmethod
    def next(self) -> str:
        """Return what gets ready for the next command."""

    # What is the same.

    def alone(self, text: str, number: int) -> str:
        """Return what makes the shell run text of builtins itself and say END, and starts no process for it.

        Args:
            text: The text.
            number: That of the request.
        """
        said = self._say(Kind.END, str(number), "0", "0")
        return f"{{ {text}\n}} </dev/null >&{self.out} 2>/dev/null; {said} >&{self.out}\n"

    def asking_for_leftovers(self, number: int) -> str:
        """Return what makes the shell say whether the last command has left anything, as the END of a request."""
        said = self._say(Kind.END, str(number), "0", self._value(Item.LEFT))
        return f"{self._look_for_leftovers()}{said} >&{self.out}\n"

    def redirecting(self, directory: str) -> str:
        """Return what has the shell speak into the two pipes of a directory from here on, see `outlet_argv`."""
        place = shlex.quote(directory)
        return f"\\exec {self.out}>{place}/1 {self.err}>{place}/2\n"

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

    def request(self, request: Request, number: int, *, announced: bool = False) -> bytes:
        """Return what makes the shell run a command.

        Args:
            request: The command.
            number: Which of its requests it is, from 1 on.
            announced: Whether the shell is to say where the output begins.
        """
        before = self.exporting(request.exports, unless_set=True) + "".join(map(self.at_once, request.functions))
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
        finishing = self._finishing(request) + (f";\\exec {self.stdin}<&-" if request.stdin_file else "")
        if where is Where.MAIN:
            run = self._there_and_back(request, f"{command} {redirections};{finishing}")
        else:
            begin = self._saying_begin(number) if where.takes_input else ""
            run = f"{begin}({command}) {redirections};{finishing}"
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
            end, first = f"{self.call} trap - EXIT", f"{self.program} stty sane <&{self.out};"
        return (
            f"{first}{self.call} trap - {self._value(Item.LEAVE_SIGNAL)} {SURVIVED} PIPE;"
            f"{self._saying_begin(number)}{end}"
        )

    def _there_and_back(self, request: Request, text: str) -> str:
        if request.cwd is None:
            return text
        place, before = self._item(Item.PLACE), self._item(Item.BEFORE)
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
        return f"${{{self._item(Item.HERE)}:-${{PWD-}}}}" if name == "PWD" else f"${{{name}-}}"

    def _value(self, item: int) -> str:
        return f"${{{self._item(item)}-}}"

    def _opening_input(self, request: Request) -> str:
        if not request.stdin_file:
            return ""
        file = shlex.quote(request.stdin_file)
        return f"\\exec {self.stdin}<{file};{self.program} rm -f -- {file};"

    # What stands behind commands.

    def _finishing_text(self, name: str) -> str:
        """Return the text of a name, see `finishing_name`."""
        where, _, how = name.partition("_")
        ended = [self._value(item) for item in (Item.NUMBER, Item.CODE, Item.LEFT)]
        first, end = f"{self._noting_end()}{self._look_for_leftovers()}", self._say(Kind.END, *ended)
        aside = f"{end} >&{self.err}\n" if how == "separate" else ""
        if where != Where.MAIN.value:
            # A command that fails may not have read all of its input, which must not be taken for script. The shell may
            # be one that ends all processes when it ends, see `keepers`.
            leaving = f"{{ {self.call} trap - EXIT; {self.call} exit; }}"
            code = f'{self.call} test "{self._value(Item.CODE)}" = 0'
            leave = f"{code} || {leaving}\n" if where == Where.ATTACHED.value else ""
            return f"{first}{aside}{end} >&{self.out}\n{leave}{self.next()}"
        said = f"{self._say(Kind.SESSION_END, *ended)} >&{self.out}\n"
        return f"{first}{self._here()}{aside}{said}{self._report(how)}{self._arm()}{self.next()}"

    def _last_words(self) -> str:
        """Return what says EXIT, in the end of the trap on that."""
        ended = [self._value(item) for item in (Item.NUMBER, Item.CODE, Item.LEFT)]
        aside = f"{self._say(Kind.EXIT, *ended)} >&{self.err}\n"
        return f"{aside}{self._say(Kind.SESSION_EXIT, *ended)} >&{self.out}\n"

    def _saying_begin(self, number: int, separate: bool = False) -> str:
        said = f"{self.call} printf '{self._head(Kind.BEGIN)}{number}\\0'"
        return "".join(f"{said} >&{end};" for end in ((self.err, self.out) if separate else (self.out,)))

    def _choosing_leave_signal(self) -> str:
        """Return what notes the signal to leave a command."""
        name = self._item(Item.LEAVE_SIGNAL)
        known = f"{self.call} kill -l {LEAVE_SIGNAL} >/dev/null 2>&1"
        return f"{name}={LEAVE_SIGNAL}; {known} || {name}={OTHER_LEAVE_SIGNAL}"

    def _making_pipe(self) -> str:
        """Return what makes a named pipe, in a directory of its own, and notes its path.

        For where a pipe that is open cannot be opened once more, as it can be where there is /proc.
        """
        place = f'"${{TMPDIR:-/tmp}}"/{directory_name(self.marker)}-leash'
        return (
            f"{self._item(Item.PIPE)}={place}/pipe; {self.program} rm -rf -- {place}; "
            f"{self.program} mkdir -m 700 -- {place} && {self.program} mkfifo {place}/pipe"
        )

    def _mark(self, number: str) -> str:
        return f'{self.call} export {MARKER_VARIABLE}="{self.marker}{number}/"'


def _line(text: str) -> bytes:
    return f"{text}\n".encode("utf-8", "surrogateescape")


def directory_name(marker: str) -> str:
    """Return a name for a directory that a shell makes for itself, by which it is known whose it was."""
    return f"hermes-{marker.rpartition(':')[2].rstrip('/').replace('/', '-')}"


def directory_word(path: str) -> str:
    """Return a directory as a word of shell text. `~` is the user's home, and a relative one is never looked up."""
    if path == "~" or path.startswith("~/"):
        return '"${HOME-}"' + (shlex.quote(path[1:]) if path[1:] else "")
    return shlex.quote(path if path.startswith("/") else f"./{path}")


def finishing_name(request: Request) -> str:
    """Return the name of the text that stands behind a request's command."""
    return f"{request.where.value}_{'separate' if request.separate else 'merge'}"


class Exported(NamedTuple):
    """What the session's last ended command left exported.

    Attributes:
        dialect: The kind of shell that reported it; None if none has.
        state: The report.
        trusted: Variables that are to be as they were before scripts changed them; an empty one was not set.
        due: Variables that the session is to have with its next command.
    """

    dialect: type[Dialect] | None = None
    state: SessionState = SessionState()
    trusted: Mapping[str, str] = MappingProxyType({})
    due: Mapping[str, str] = MappingProxyType({})

    @property
    def known(self) -> bool:
        """Whether the session has reported anything. If not, it has what any shell of the target begins with."""
        return self.dialect is not None and self.state.reported

    def taken_up_by(self, command: str, kept: Collection[str]) -> str:
        """Return a command for a subshell, with these variables and without those that the session does not have.

        Args:
            command: Shell text.
            kept: Variables that stay as they are where it runs.
        """
        assert self.dialect
        exports = {**exports_of(self.state), **{name: _export(name, value) for name, value in self.trusted.items()}}
        apart = {*OF_A_SHELL, *kept, *self.due, *filter(_OURS.fullmatch, exports)}
        theirs = {name: text for name, text in exports.items() if text and name not in apart}
        unset = f"{self.dialect.unsetting(_EACH, {*apart, *theirs})}\n{self.dialect.call} unset -v {_EACH}\n"
        return f"{{ {unset}{''.join(theirs.values())}}} 2>/dev/null\n:\n{command}"


def _export(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}\n" if value else ""

"""Base of the shell dialects: assembles the text of a request for any kind of shell."""

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
"""Options under which a new shell would stop reading its script."""
_EACH = "_hx_each"
LEAVE_SIGNAL, OTHER_LEAVE_SIGNAL = 50, 29
"""The signal sent to the session's shell to leave its command: a real-time signal, unused by programs. Without
real-time signals, as on macOS, the second is sent: INFO there, sent by terminals."""
LEFT = 128 + LEAVE_SIGNAL
"""The exit code of a command left by signal. Visible to callers only if another process sent the signal."""
SURVIVED = "TERM INT HUP QUIT"
"""Signals survived by a shell that only forks: a signal to a process group reaches the shell too. Children get the
default action for a trapped signal, but would inherit an ignored one."""
OF_A_SHELL = frozenset(
    {MARKER_VARIABLE, "PWD", "OLDPWD", "SHLVL", "_", "BASHOPTS", "SHELLOPTS", "UID", "EUID", "PPID", "IFS"}
)
"""Variables set by each shell for itself."""
_OURS = re.compile(r"_[0-9a-f]{3}_[a-z_]+")
"""Internal names in a plain sh, exported by `set -a`."""


class Where(Enum):
    """The process that runs a command."""

    MAIN = "main"
    """The shell itself: changes made by the command stay."""
    SUBSHELL = "sub"
    """A fork of the shell: no change stays."""
    ATTACHED = "attached"
    """A fork of the shell with the stream as its input. A successful command must have read all of the input written
    for it, as the shell reads on after it; a failed command ends the shell too."""
    LAST = "last"
    """The shell itself, with the stream as its input. The shell ends with the command."""
    LAST_ON_TERMINAL = "tty"
    """LAST on a terminal."""

    @property
    def takes_input(self) -> bool:
        """True if the command reads the stream as its input. A BEGIN then always marks the start of its output."""
        return self not in (Where.MAIN, Where.SUBSHELL)

    @property
    def ends_shell(self) -> bool:
        """True if the shell ends with the command."""
        return self in (Where.LAST, Where.LAST_ON_TERMINAL)


FINISHING_NAMES = tuple(
    f"{where.value}_{how}" for where in Where if not where.ends_shell for how in ("merge", "separate")
)
"""The names of the texts after commands, see `finishing_name`."""


class ShellRequest(NamedTuple):
    """One command with its run options."""

    command: str
    where: Where = Where.MAIN
    cwd: str | None = None
    """The working directory for this command alone; `~` is the target user's home. None runs in the shell's directory.
    If it cannot be entered, the command does not run."""
    env: Mapping[str, str] = MappingProxyType({})
    """Variables for this command alone."""
    stdin_file: str | None = None
    """A file of the target with the command's input. Removed once open."""
    separate: bool = False
    """True to keep stderr apart."""
    exports: Mapping[str, str] = MappingProxyType({})
    """Variables exported by the shell before the command, and kept; a variable already set stays unchanged."""
    command_file: str | None = None
    """A file of the target with the command's text instead. Removed before the command runs."""
    functions: tuple[str, ...] = ()
    """Function definitions sent before the command and kept by the shell. Definitions the shell has are not sent
    again."""


class Item(IntEnum):
    """Internal variables in a shell. In bash they are elements of an array: one digit is read faster than two."""

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
    """The text for shells of one family.

    The shell counts its own requests. Most preparation for a request is thus done after the end of the previous
    request.

    Args:
        nonce: The prefix of its messages.
        marker: The prefix of the marker variable for its commands.
        words: The prefix of internal names, used by no user.
    """

    name: ClassVar[str]
    call: ClassVar[str]
    """Prefix of a builtin, because users redefine `printf`, `cd` or `trap`, and alias any word."""
    program: ClassVar[str]
    """Prefix of a program, whatever the value of PATH."""
    out: ClassVar[int]
    err: ClassVar[int]
    """The file descriptors of the stream's output and standard error."""
    stdin: ClassVar[int]
    """The file descriptor of a command's input file."""
    keepalive: ClassVar[int]
    keepalive_end: ClassVar[int]
    """The file descriptors of the keepalive pipe: a command's end, and the shell's own end."""

    reads_ahead: ClassVar[bool]
    """True if the shell reads more of its script from the stream than it is about to run."""
    can_leave: ClassVar[bool]
    """True if the shell can leave a command that is to be ended, and go on. Otherwise the shell ends too."""

    def __init__(self, nonce: str, marker: str, words: str) -> None:
        self.nonce = nonce
        self.marker = marker
        self.words = words
        self._usual: dict[str, bytes] = {}
        """Texts that evaluate the commands of usual requests, by `finishing_name`."""

    # Differences between shells.

    @abstractmethod
    def definitions(self) -> str:
        """Return the first text: moves the stream to high file descriptors, and defines the parts of later requests."""

    @abstractmethod
    def restoring(self, state: SessionState, *, functions: bool) -> str:
        """Return text to restore the state of an earlier shell, each part guarded against errors.

        Args:
            state: The state.
            functions: True to restore functions and aliases too.
        """

    @classmethod
    @abstractmethod
    def unsetting(cls, name: str, kept: Collection[str]) -> str:
        """Return text to unset all exported variables except some.

        Args:
            name: A variable for internal use.
            kept: The names of variables to keep.
        """

    @abstractmethod
    def new_keepalive(self) -> str:
        """Return text to open a new keepalive pipe: later checks ignore processes left by earlier commands."""

    @abstractmethod
    def _loading(self, request: ShellRequest) -> bytes:
        """Return text to store the command in the evaluated variable, and to open its input."""

    @abstractmethod
    def _evaluating(self, request: ShellRequest) -> str:
        """Return text to evaluate the variable."""

    @abstractmethod
    def _redirections(self, request: ShellRequest) -> str:
        """Return the redirections around the command, undone by the shell afterwards."""

    @abstractmethod
    def _finishing(self, request: ShellRequest) -> str:
        """Return the text after a command: reports the end, and prepares for the next command."""

    @abstractmethod
    def _item(self, item: int) -> str:
        """Return the name of an internal variable."""

    @abstractmethod
    def _noting_end(self) -> str:
        """Return text to record, after a command, its end."""

    @abstractmethod
    def _look_for_leftovers(self) -> str:
        """Return text to set `LEFT`: 1 if a process of a command is left, else 0."""

    @abstractmethod
    def _here(self) -> str:
        """Return text to set `HERE` to the directory if $PWD is wrong: users may assign, freeze or unset $PWD."""

    @abstractmethod
    def _report(self, how: str) -> str:
        """Return text for a state report on standard error, shared with the command unless `how` is `merge`."""

    @abstractmethod
    def _arm(self) -> str:
        """Return the traps: one reports an end of the shell by a command, one makes the shell leave a command."""

    @abstractmethod
    def next(self) -> str:
        """Return text to prepare for the next command."""

    # Common parts.

    def running_builtins(self, text: str, number: int) -> str:
        """Return text for the shell to run builtins itself and send END, without a new process.

        Args:
            text: Text of builtins.
            number: The request's number.
        """
        said = self._message(Kind.END, str(number), "0", "0")
        return f"{{ {text}\n}} </dev/null >&{self.out} 2>/dev/null; {said} >&{self.out}\n"

    def asking_for_leftovers(self, number: int) -> str:
        """Return a query for leftover processes of the last command. The END of the request carries the answer."""
        said = self._message(Kind.END, str(number), "0", self._value(Item.LEFT))
        return f"{self._look_for_leftovers()}{said} >&{self.out}\n"

    def redirecting(self, directory: str) -> str:
        """Return text to redirect the shell's output to the two pipes in a directory, see `relay_argv`."""
        place = shlex.quote(directory)
        return f"\\exec {self.out}>{place}/1 {self.err}>{place}/2\n"

    def at_once(self, text: str) -> str:
        """Return text to read a long internal text faster than one byte per system call, if the shell can."""
        return text

    def exporting(self, variables: Mapping[str, str], *, unless_set: bool = False) -> str:
        """Return text to export variables permanently. A plain sh with `set -x` would print each with its value.

        Args:
            variables: The variables.
            unless_set: True to keep the value of a variable already set.
        """
        text = ""
        for name, value in variables.items():
            export = f"{self.call} export {name}={shlex.quote(value)} || :"
            text += f"case ${{{name}+x}} in x) ;; *) {export} ;; esac; " if unless_set else f"{export}; "
        return f"{{ {text}}} 2>/dev/null\n" if text else ""

    def entering(self, cwd: str | None, nowhere: str | None) -> str:
        """Return the text after the definitions: enters the start directory, before an earlier state can interfere.

        Args:
            cwd: The start directory; None keeps the directory of the started process.
            nowhere: The name of a directory to make and remove at once, used as the directory if `cwd` cannot be
                entered.
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
        """Return the text after an earlier state: sends READY.

        Args:
            old_cwd: The previous directory, for `cd -`; empty is none.
            restored: True after a restored state. Its variables may describe a directory of the last command alone.
        """
        failed, text = f"{self.words}_p", ""
        if restored:
            text += f"{self.call} cd -- . >/dev/null 2>&1 || :\n"  # corrects $PWD
            before = f"OLDPWD={shlex.quote(old_cwd)}" if old_cwd else "unset -v OLDPWD;export OLDPWD"
            text += f"{self.call} eval {shlex.quote(before)} 2>/dev/null || :\n"  # may be read-only
        values = " ".join(f'"${{{name}-}}"' for name in ("HOME", *WATCHED))
        form = "%s\\0" * (1 + len(WATCHED))
        ready = f"'{self._head(Kind.READY)}%s\\0{self.name}\\0%s\\0{form}'"
        return text + f'{self.call} printf {ready} "$$" "${failed}" {values} >&{self.out}\nunset {failed}\n'

    def request(self, request: ShellRequest, number: int, *, announced: bool = False) -> bytes:
        """Return the text that runs a command.

        Args:
            request: The command.
            number: The number of the request, from 1.
            announced: True to send a BEGIN before the output.
        """
        before = self.exporting(request.exports, unless_set=True) + "".join(map(self.at_once, request.functions))
        before += self._begin_message(number, request.separate) if announced else ""
        if number == 1 and request.where in (Where.SUBSHELL, Where.ATTACHED):
            before += f"{self.call} trap : {SURVIVED};"
        first = before.encode("utf-8", "surrogateescape") + self._loading(request)
        if request.cwd is not None or request.env or request.stdin_file or request.where.takes_input:
            return first + self._running(request, number)
        name = finishing_name(request)
        if name not in self._usual:
            self._usual[name] = self._running(request, number)
        return first + self._usual[name]

    def _running(self, request: ShellRequest, number: int) -> bytes:
        """Return text to evaluate the command, and the text after it."""
        where = request.where
        command = f"{self._entering(request)}{self._with_variables(request)}{self._evaluating(request)}"
        redirections = self._redirections(request)
        if where.ends_shell:
            return _line(f"{self._last(request, number)};{command} {redirections};{self.call} exit")
        finishing = self._finishing(request) + (f";\\exec {self.stdin}<&-" if request.stdin_file else "")
        if where is Where.MAIN:
            run = self._there_and_back(request, f"{command} {redirections};{finishing}")
        else:
            begin = self._begin_message(number) if where.takes_input else ""
            run = f"{begin}({command}) {redirections};{finishing}"
        # In braces: a request with its end cut off is a syntax error, and no part of it runs.
        return _line(f"{{ {run}; }}")

    def _last(self, request: ShellRequest, number: int) -> str:
        """Return the text before the last command of a shell."""
        code = f"{self.words}_c"
        said = self._message(Kind.EXIT, str(number), f"${code}", "0")
        aside = f"{said} >&{self.err};" if request.separate else ""
        end, first = f"{self.call} trap {shlex.quote(f'{code}=$?;{aside}{said} >&{self.out}')} EXIT", ""
        if request.where is Where.LAST_ON_TERMINAL:
            # A terminal rewrites line breaks and thus messages: the end of the stream reports the end there.
            end, first = f"{self.call} trap - EXIT", f"{self.program} stty sane <&{self.out};"
        return (
            f"{first}{self.call} trap - {self._value(Item.LEAVE_SIGNAL)} {SURVIVED} PIPE;"
            f"{self._begin_message(number)}{end}"
        )

    def _there_and_back(self, request: ShellRequest, text: str) -> str:
        if request.cwd is None:
            return text
        place, before = self._item(Item.PLACE), self._item(Item.BEFORE)
        there = f'{self.call} test "${{{place}}}" -ef .'  # with a read-only PWD, `cd` succeeds and reports a failure
        back = f'{self.call} cd -- "${{{place}}}" >/dev/null 2>&1 || {there} || {self.call} exit;OLDPWD=${{{before}}}'
        return f"{place}={self._watched('PWD')} {before}=${{OLDPWD-}};{text};{back}"

    def _entering(self, request: ShellRequest) -> str:
        """Return text to enter a request's directory. Errors become the command's. With CDPATH, `cd` prints."""
        if request.cwd is None:
            return ""
        err = self.err if request.separate else self.out
        place = directory_word(request.cwd)
        there = f" || {self.call} test {place} -ef ." if request.where is Where.MAIN else ""  # as in `_there_and_back`
        return f"{self.call} cd -- {place} >/dev/null 2>&{err}{there} && "

    @staticmethod
    def _with_variables(request: ShellRequest) -> str:
        return "".join(f"{name}={shlex.quote(value)} " for name, value in request.env.items())

    def _head(self, kind: Kind) -> str:
        return f"\\036{self.nonce} {kind.value.decode()}"

    def _message(self, kind: Kind, number: str, code: str, left: str) -> str:
        """Return the command that sends END or EXIT."""
        names = FIELDS_OF.get(kind, ())
        form, values = "%s\\0" * len(names), "".join(f' "{self._watched(name)}"' for name in names)
        return f'{self.call} printf \'{self._head(kind)}%s\\0%s\\0%s\\0{form}\' "{number}" "{code}" "{left}"{values}'

    def _watched(self, name: str) -> str:
        """Return the expansion of a watched variable."""
        return f"${{{self._item(Item.HERE)}:-${{PWD-}}}}" if name == "PWD" else f"${{{name}-}}"

    def _value(self, item: int) -> str:
        return f"${{{self._item(item)}-}}"

    def _opening_input(self, request: ShellRequest) -> str:
        if not request.stdin_file:
            return ""
        file = shlex.quote(request.stdin_file)
        return f"\\exec {self.stdin}<{file};{self.program} rm -f -- {file};"

    # Texts after commands.

    def _finishing_text(self, name: str) -> str:
        """Return the text for a name, see `finishing_name`."""
        where, _, how = name.partition("_")
        ended = [self._value(item) for item in (Item.NUMBER, Item.CODE, Item.LEFT)]
        first, end = f"{self._noting_end()}{self._look_for_leftovers()}", self._message(Kind.END, *ended)
        aside = f"{end} >&{self.err}\n" if how == "separate" else ""
        if where != Where.MAIN.value:
            # A failed command may not have read all of its input, and the shell must not run the rest as script. The
            # shell may be a watchdog that ends all processes at its own end.
            leaving = f"{{ {self.call} trap - EXIT; {self.call} exit; }}"
            code = f'{self.call} test "{self._value(Item.CODE)}" = 0'
            leave = f"{code} || {leaving}\n" if where == Where.ATTACHED.value else ""
            return f"{first}{aside}{end} >&{self.out}\n{leave}{self.next()}"
        said = f"{self._message(Kind.SESSION_END, *ended)} >&{self.out}\n"
        return f"{first}{self._here()}{aside}{said}{self._report(how)}{self._arm()}{self.next()}"

    def _announcing_end(self) -> str:
        """Return the command that sends EXIT, for the end of the EXIT trap."""
        ended = [self._value(item) for item in (Item.NUMBER, Item.CODE, Item.LEFT)]
        aside = f"{self._message(Kind.EXIT, *ended)} >&{self.err}\n"
        return f"{aside}{self._message(Kind.SESSION_EXIT, *ended)} >&{self.out}\n"

    def _begin_message(self, number: int, separate: bool = False) -> str:
        said = f"{self.call} printf '{self._head(Kind.BEGIN)}{number}\\0'"
        return "".join(f"{said} >&{end};" for end in ((self.err, self.out) if separate else (self.out,)))

    def _choosing_leave_signal(self) -> str:
        """Return text to choose the signal to leave a command."""
        name = self._item(Item.LEAVE_SIGNAL)
        known = f"{self.call} kill -l {LEAVE_SIGNAL} >/dev/null 2>&1"
        return f"{name}={LEAVE_SIGNAL}; {known} || {name}={OTHER_LEAVE_SIGNAL}"

    def _making_pipe(self) -> str:
        """Return text to make a named pipe in a directory of its own, and to store the path.

        For systems without /proc, where an open pipe has no path for a second open.
        """
        place = f'"${{TMPDIR:-/tmp}}"/{directory_name(self.marker)}-keepalive'
        return (
            f"{self._item(Item.PIPE)}={place}/pipe; {self.program} rm -rf -- {place}; "
            f"{self.program} mkdir -m 700 -- {place} && {self.program} mkfifo {place}/pipe"
        )

    def _mark(self, number: str) -> str:
        return f'{self.call} export {MARKER_VARIABLE}="{self.marker}{number}/"'


def _line(text: str) -> bytes:
    return f"{text}\n".encode("utf-8", "surrogateescape")


def directory_name(marker: str) -> str:
    """Return a name for a shell's own directory. The name identifies the owner."""
    return f"hermes-{marker.rpartition(':')[2].rstrip('/').replace('/', '-')}"


def directory_word(path: str) -> str:
    """Return a directory as a word of shell text. `~` is the user's home; a relative path ignores CDPATH."""
    if path == "~" or path.startswith("~/"):
        return '"${HOME-}"' + (shlex.quote(path[1:]) if path[1:] else "")
    return shlex.quote(path if path.startswith("/") else f"./{path}")


def finishing_name(request: ShellRequest) -> str:
    """Return the name of the text after a request's command."""
    return f"{request.where.value}_{'separate' if request.separate else 'merge'}"


class Exported(NamedTuple):
    """The exports of a session after its last finished command.

    Attributes:
        dialect: The dialect of the reporting shell; None without a report.
        state: The report.
        trusted: Values of variables from before scripts changed them; an empty value means unset.
        due: Variables that the session's next command will receive.
    """

    dialect: type[Dialect] | None = None
    state: SessionState = SessionState()
    trusted: Mapping[str, str] = MappingProxyType({})
    due: Mapping[str, str] = MappingProxyType({})

    @property
    def is_known(self) -> bool:
        """True once the session has sent a report. Otherwise it has the variables of any new shell of the target."""
        return self.dialect is not None and self.state.is_reported

    def taken_up_by(self, command: str, kept: Collection[str]) -> str:
        """Return a command for a subshell with exactly the session's exports.

        Args:
            command: Shell text.
            kept: Variables of the subshell to keep.
        """
        assert self.dialect
        exports = {**exports_of(self.state), **{name: _export(name, value) for name, value in self.trusted.items()}}
        apart = {*OF_A_SHELL, *kept, *self.due, *filter(_OURS.fullmatch, exports)}
        theirs = {name: text for name, text in exports.items() if text and name not in apart}
        unset = f"{self.dialect.unsetting(_EACH, {*apart, *theirs})}\n{self.dialect.call} unset -v {_EACH}\n"
        return f"{{ {unset}{''.join(theirs.values())}}} 2>/dev/null\n:\n{command}"


def _export(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}\n" if value else ""

"""The dialect of other POSIX shells: dash, the ash of BusyBox, and the like."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection

from environments.shell.dialect.base import (
    FINISHING_NAMES,
    LEFT,
    NEVER_RESTORED,
    Dialect,
    Item,
    ShellRequest,
    finishing_name,
)
from environments.shell.framing import Kind
from environments.shell.state import SessionState

_OUT, _ERR, _KEEPALIVE, _KEEPALIVE_END, _STDIN = 8, 7, 6, 5, 4
_OURS = re.compile(r"^export _[0-9a-f]{3}_[a-z_]+=.*\n", re.MULTILINE)
_ITS_OWN_COMMAND = "\\unset -f command"
"""Removes a user's function that internal text would call. This kind of shell runs the builtin `unset`, but not
`command`, ahead of a function; the function cannot be printed, and so is not restored."""
_OPTION = re.compile(r"^set [-+]o (\S+)$", re.MULTILINE)


class Posix(Dialect):
    """A POSIX shell. Its file descriptors have one digit, so internal ones are set and released for each command.

    The shell's own output stays on the stream. The output of `set -x` about internal text is no message, and is
    dropped.
    """

    name = "sh"
    call = "\\command"
    program = "\\command -p"
    out, err, stdin, keepalive, keepalive_end = _OUT, _ERR, _STDIN, _KEEPALIVE, _KEEPALIVE_END
    reads_ahead = True
    can_leave = False

    def _name(self, key: str) -> str:
        return f"{self.words}_{key}"

    def _item(self, item: int) -> str:
        return self._name(Item(item).name.lower())

    def definitions(self) -> str:
        texts = {self._name(name): self._finishing_text(name) for name in FINISHING_NAMES}
        texts |= {self._item(Item.EXIT): self._exit_trap(), self._item(Item.NUMBER): "0"}
        return "\n".join(
            [
                f"\\exec {_OUT}>&1 {_ERR}>&2",
                *(f"{name}={shlex.quote(text)}" for name, text in texts.items()),
                self._choosing_leave_signal(),
                self.new_keepalive(),
                self._arm(),
            ]
        )

    def new_keepalive(self) -> str:
        # A here-document is a pipe. The shell keeps its other end.
        pipe, name = f"/proc/self/fd/{_KEEPALIVE}", self._item(Item.PIPE)
        opened = f'\\exec {_KEEPALIVE}<>"${name}" {_KEEPALIVE_END}>"${name}"'  # neither open waits for the other
        return (
            f"\\exec {_KEEPALIVE}<<HX_KEEPALIVE\n\nHX_KEEPALIVE\n"
            f"if [ -p {pipe} ]; then \\exec {_KEEPALIVE_END}>{pipe}; {name}=/proc/self/fd/{_KEEPALIVE_END}; "
            f"\\command read -r {self._name('x')} <&{_KEEPALIVE}; "
            f"elif ! [ -e /proc/self/fd ] && {self._making_pipe()}; then {opened}; "
            f"else \\exec {_KEEPALIVE_END}>/dev/null; {name}=/dev/null; fi; \\exec {_KEEPALIVE}<&-\n"
        )

    def _arm(self) -> str:
        text = f'\\eval "{self._value(Item.EXIT)}"'
        return (
            f"\\command trap '{text}' EXIT; \\command trap '\\command exit {LEFT}' {self._value(Item.LEAVE_SIGNAL)}\n"
        )

    def next(self) -> str:
        number = self._item(Item.NUMBER)
        return f"{number}=$(({number}+1)); {self._mark(self._value(Item.NUMBER))}\n"

    def _noting_end(self) -> str:
        return f"\\command unset {self._item(Item.COMMAND)}\n"

    def _look_for_leftovers(self) -> str:
        # Without a reader on the other end, a write to the pipe ends the writer.
        probe = f"(\\command trap - PIPE; \\command printf x >&{_KEEPALIVE_END}) 2>/dev/null"
        held = self._item(Item.LEFT)
        return f'{held}=0; if [ -p "{self._value(Item.PIPE)}" ] && {probe}; then {held}=1; fi\n'

    def _here(self) -> str:
        # With a frozen $PWD, builtins report a wrong directory.
        here = self._item(Item.HERE)
        known = 'case ${PWD-} in /*) \\command test "$PWD" -ef . ;; *) ! : ;; esac'
        return f"{here}=; {known} || {here}=$(\\command -p env pwd) || :\n"

    def _report(self, how: str) -> str:
        """Return text for a state report. While other processes may write there, the report waits for the next end."""
        number = self._value(Item.NUMBER)
        end = f"\\command printf '\\0%s\\0' \"{number}\""
        exports = "\\command export -p; \\command printf 'umask '; \\command umask"
        text = (
            f"{{ \\command printf '{self._head(Kind.STATE)}%s\\0\\0\\0' \"{number}\"; {exports}; "
            f"\\command printf '\\0'; \\command set +o; {end}; }} >&{_ERR} 2>/dev/null\n"
        )
        return text if how == "merge" else f'if [ "{self._value(Item.LEFT)}" = 0 ]; then {text}fi\n'

    def _exit_trap(self) -> str:
        """Return the trap on EXIT. It runs within the redirections of the command that ends the shell."""
        # Between commands, EXIT belongs to no command: the number is already the next command's.
        idle = f"case ${{{self._item(Item.COMMAND)}+x}} in x) ;; *) {self._item(Item.NUMBER)}=0 ;; esac\n"
        first = f"{self._item(Item.CODE)}=$? {self._item(Item.LEFT)}=0\n{_ITS_OWN_COMMAND}\n{idle}"
        head = f"{first}\\command trap - EXIT\n"
        return f"{head}{self._here()}{self._report('merge')}{self._announcing_end()}"

    # A request.

    def _loading(self, request: ShellRequest) -> bytes:
        # `set -a` would export the command, and a long command exceeds the limit of the environment.
        flags = self._item(Item.FLAGS)
        text = f"{flags}=$-;\\command set +a;"
        if request.command_file:
            file = shlex.quote(request.command_file)
            text += f'{self._item(Item.COMMAND)}="$(\\command -p cat {file})";\\command -p rm -f {file};'
        else:
            text += f"{self._item(Item.COMMAND)}={shlex.quote(request.command)};"
        text += f"case ${flags} in *a*) \\command set -a ;; esac;{self._opening_input(request)}"
        return text.encode("utf-8", "surrogateescape")

    def _evaluating(self, request: ShellRequest) -> str:
        return f'\\command eval " {self._value(Item.COMMAND)}"'  # the space, as the command may begin with a dash

    def _redirections(self, request: ShellRequest) -> str:
        stdin = ""
        if not request.where.takes_input:
            stdin = f"0<&{_STDIN} {_STDIN}<&- " if request.stdin_file else "0</dev/null "
        err = _ERR if request.separate else _OUT
        ends = f'{_KEEPALIVE}<"{self._value(Item.PIPE)}" {_KEEPALIVE_END}>&-'
        return f"{stdin}{_OUT}>&1 {_ERR}>&2 1>&{_OUT} 2>&{err} {ends}"

    def _finishing(self, request: ShellRequest) -> str:
        # If a command has removed the texts, the shell ends with its exit code.
        code = self._item(Item.CODE)
        finish = f'"${{{self._name(finishing_name(request))}-\\\\command exit ${code}}}"'
        return f"{code}=$?;{_ITS_OWN_COMMAND};\\command eval {finish}"

    def redirecting(self, directory: str) -> str:
        # The shell's own output is redirected too.
        return f"{super().redirecting(directory)}\\exec 1>&{_OUT} 2>&{_ERR}\n"

    # The state of an earlier shell.

    @classmethod
    def unsetting(cls, name: str, kept: Collection[str]) -> str:
        each = f'{name}=${{{name}#export }}; echo "${{{name}%%=*}}"'
        names = f"$(\\command export -p | while IFS= read -r {name}; do {each}; done)"
        keep = "|".join(("''|*[!A-Za-z0-9_]*|[0-9]*", *kept))
        return f'for {name} in {names}; do case ${name} in {keep}) ;; *) unset -v "${name}" ;; esac; done'

    def restoring(self, state: SessionState, *, functions: bool) -> str:
        # This kind of shell cannot print its functions.
        if not state.is_reported:
            return ""
        name = self._name("n")
        unset = self.unsetting(name, ("PWD", "OLDPWD"))
        exports = _OURS.sub("", state.exports)  # exported by `set -a`
        options = "\n".join(
            f"\\command {found[0]}" for found in _OPTION.finditer(state.functions) if found[1] not in NEVER_RESTORED
        )
        return f"{unset}\n\\command eval {shlex.quote(exports)}\nunset {name}\n{options}\n"

"""What is said to a shell that is no bash: dash, the ash of BusyBox, and what else is POSIX."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection

from environments.shell.dialect.base import FINISHING_NAMES, LEAVE_SIGNAL, LEFT, NEVER_RESTORED, Dialect, finishing_name
from environments.shell.framing import Kind
from environments.shell.request import Request, Where
from environments.shell.state import SessionState

_OUT, _ERR, _LEASH, _LEASH_END = 8, 7, 6, 5
_OURS = re.compile(r"^export _[0-9a-f]{3}_[a-z_]+=.*\n", re.MULTILINE)
_ITS_OWN_COMMAND = "\\unset -f command"
"""Takes away a function that our text would call. A shell of this kind finds `unset`, but not `command`, before it, and
cannot say what the function was, so that it is not brought back."""
_OPTION = re.compile(r"^set [-+]o (\S+)$", re.MULTILINE)


class Posix(Dialect):
    """A POSIX shell. Its descriptors have one digit, so that ours are set anew for each command and given back then.

    The shell's own output stays on the stream. What `set -x` says about our text is no message, and so dropped.
    """

    name = "sh"
    call = "\\command"
    stty = "\\command -p stty"
    out, err, leash, leash_end = _OUT, _ERR, _LEASH, _LEASH_END
    reads_ahead = True
    can_leave = False

    def _name(self, key: str) -> str:
        return f"{self.words}_{key}"

    def _value(self, key: str) -> str:
        return f"${{{self.words}_{key}-}}"

    def definitions(self) -> str:
        """Return the first text, see `Dialect`. The leash is open to commands through /proc, where there is one."""
        texts = {name: self._finishing_text(name) for name in FINISHING_NAMES} | {"exit": self._farewell()}
        return "\n".join(
            [
                f"\\exec {_OUT}>&1 {_ERR}>&2",
                *(f"{self._name(name)}={shlex.quote(text)}" for name, text in texts.items()),
                self.new_leash(),
                f"{self._name('i')}=0",
                self._arm(),
            ]
        )

    def new_leash(self) -> str:
        """Return what makes a pipe, see `Dialect`: a here-document is one. Of that the shell keeps the other end."""
        pipe = f"/proc/self/fd/{_LEASH}"
        return (
            f"\\exec {_LEASH}<<HX_LEASH\n\nHX_LEASH\n"
            f"if [ -p {pipe} ]; then \\exec {_LEASH_END}>{pipe}; {self._name('l')}=/proc/self/fd/{_LEASH_END}; "
            f"\\command read -r {self._name('x')} <&{_LEASH}; "
            f"else \\exec {_LEASH_END}>/dev/null; {self._name('l')}=/dev/null; fi; \\exec {_LEASH}<&-\n"
        )

    def _arm(self) -> str:
        """Return the traps: one reports how a command ended the shell, the other is how we make a command end."""
        text = f'\\eval "{self._value("exit")}"'
        return f"\\command trap '{text}' EXIT; \\command trap '\\command exit {LEFT}' {LEAVE_SIGNAL}\n"

    def _next(self) -> str:
        """Return what gets ready for the next command."""
        number = self._name("i")
        return f"{number}=$(({number}+1)); {self._mark(self._value('i'))}\n"

    def first(self) -> str:
        """Return what gets ready for the first command, see `Dialect`."""
        return self._next()

    def _finishing_text(self, name: str) -> str:
        where, _, how = name.partition("_")
        number, code, left = self._value("i"), self._value("r"), self._value("h")
        first = f"\\command unset {self._name('c')}\n"
        first += self._look_for_leftovers()
        end = self._say(Kind.END, number, code, left)
        aside = f"{end} >&{_ERR}\n" if how == "separate" else ""
        if where != Where.MAIN.value:
            # A command that fails may not have read all of its input, which must not be taken for script.
            leaving = f'[ "{code}" = 0 ] || {{ \\command trap - EXIT; \\command exit; }}\n'
            leave = leaving if where == Where.ATTACHED.value else ""
            return f"{first}{aside}{end} >&{_OUT}\n{leave}{self._next()}"
        said = f"{self._say(Kind.SESSION_END, number, code, left)} >&{_OUT}\n"
        return f"{first}{self._here()}{aside}{said}{self._report(how)}{self._arm()}{self._next()}"

    def _look_for_leftovers(self) -> str:
        # Where nobody holds the other end, writing to the pipe is the end of whoever does.
        probe = f"(\\command trap - PIPE; \\command printf x >&{_LEASH_END}) 2>/dev/null"
        held = self._name("h")
        return f'{held}=0; if [ -p "{self._value("l")}" ] && {probe}; then {held}=1; fi\n'

    def _here(self) -> str:
        """Return what finds out where the shell is, if not in $PWD: a user may assign, freeze or unset that.

        Where $PWD is frozen, what is built in does not know it.
        """
        here = self._name("w")
        known = 'case ${PWD-} in /*) \\command test "$PWD" -ef . ;; *) ! : ;; esac'
        return f"{here}=; {known} || {here}=$(\\command -p env pwd) || :\n"

    def _watched(self, name: str) -> str:
        return f"${{{self._name('w')}:-${{PWD-}}}}" if name == "PWD" else super()._watched(name)

    def _report(self, how: str) -> str:
        """Return what reports the state. Where others may write in between, it is not reported but at the next end."""
        number = self._value("i")
        end = f"\\command printf '\\0%s\\0' \"{number}\""
        exports = "\\command export -p; \\command printf 'umask '; \\command umask"
        text = (
            f"{{ \\command printf '{self._head(Kind.STATE)}%s\\0\\0\\0' \"{number}\"; {exports}; "
            f"\\command printf '\\0'; \\command set +o; {end}; }} >&{_ERR} 2>/dev/null\n"
        )
        return text if how == "merge" else f'if [ "{self._value("h")}" = 0 ]; then {text}fi\n'

    def _farewell(self) -> str:
        """Return the trap on EXIT. It runs inside of the redirections of the command that ends the shell."""
        number, code, left = self._value("i"), self._value("r"), self._value("h")
        # While no command runs, its end is that of none: the number is the next command's already.
        idle = f"case ${{{self._name('c')}+x}} in x) ;; *) {self._name('i')}=0 ;; esac\n"
        first = f"{self._name('r')}=$? {self._name('h')}=0\n{_ITS_OWN_COMMAND}\n{idle}"
        head = f"{first}\\command trap - EXIT\n"
        aside = f"{self._say(Kind.EXIT, number, code, left)} >&{_ERR}\n"
        said = f"{self._say(Kind.SESSION_EXIT, number, code, left)} >&{_OUT}\n"
        return f"{head}{self._here()}{self._report('merge')}{aside}{said}"

    # A request.

    def _loading(self, request: Request) -> bytes:
        # What `set -a` is on for would be exported, and a long command is too long for that.
        flags, then = self._name("a"), ""
        text = f"{flags}=$-;\\command set +a;"
        if request.command_file:
            file = shlex.quote(request.command_file)
            text += f'{self._name("c")}="$(\\command -p cat {file})";\\command -p rm -f {file};'
        else:
            text += f"{self._name('c')}={shlex.quote(request.command)};"
        if request.stdin_file:
            file = shlex.quote(request.stdin_file)
            then = f"\\exec 4<{file};\\command -p rm -f {file};"
        text += f"case ${flags} in *a*) \\command set -a ;; esac;{then}"
        return text.encode("utf-8", "surrogateescape")

    def _evaluating(self, request: Request) -> str:
        return f'\\command eval " {self._value("c")}"'  # the space, as it may begin with a dash

    def _redirections(self, request: Request) -> str:
        stdin = ""
        if not request.where.takes_input:
            stdin = "0<&4 4<&- " if request.stdin_file else "0</dev/null "
        err = _ERR if request.separate else _OUT
        ends = f'{_LEASH}<"{self._value("l")}" {_LEASH_END}>&-'
        return f"{stdin}{_OUT}>&1 {_ERR}>&2 1>&{_OUT} 2>&{err} {ends}"

    def _finishing(self, request: Request) -> str:
        # Where a command has removed our texts, the shell ends with that command's exit code.
        code = self._name("r")
        finish = f'"${{{self._name(finishing_name(request))}-\\\\command exit ${code}}}"'
        text = f"{code}=$?;{_ITS_OWN_COMMAND};\\command eval {finish}"
        return f"{text};\\exec 4<&-" if request.stdin_file else text

    def _place(self) -> tuple[str, str]:
        return self._name("p"), self._name("o")

    def redirecting(self, directory: str) -> str:
        """Return what has the shell speak elsewhere, see `Dialect`."""
        place = shlex.quote(directory)
        return f"\\exec {_OUT}>{place}/1 {_ERR}>{place}/2; \\exec 1>&{_OUT} 2>&{_ERR}\n"

    def asking_for_leftovers(self, number: int) -> str:
        """Return the question, see `Dialect`."""
        said = self._say(Kind.END, str(number), "0", self._value("h"))
        return f"{self._look_for_leftovers()}{said} >&{_OUT}\n"

    # What an earlier shell held.

    @classmethod
    def unsetting(cls, name: str, kept: Collection[str]) -> str:
        """Return what unsets all exported variables but some, see `Dialect`."""
        each = f'{name}=${{{name}#export }}; echo "${{{name}%%=*}}"'
        names = f"$(\\command export -p | while IFS= read -r {name}; do {each}; done)"
        keep = "|".join(("''|*[!A-Za-z0-9_]*|[0-9]*", *kept))
        return f'for {name} in {names}; do case ${name} in {keep}) ;; *) unset -v "${name}" ;; esac; done'

    def restoring(self, state: SessionState, *, functions: bool) -> str:
        """Return the text, see `Dialect`. A shell of this kind cannot say what functions it has."""
        if not state.reported:
            return ""
        name = self._name("n")
        unset = self.unsetting(name, ("PWD", "OLDPWD"))
        exports = _OURS.sub("", state.exports)  # with `set -a`
        options = "\n".join(
            f"\\command {found[0]}" for found in _OPTION.finditer(state.functions) if found[1] not in NEVER_RESTORED
        )
        return f"{unset}\n\\command eval {shlex.quote(exports)}\nunset {name}\n{options}\n"

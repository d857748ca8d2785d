"""The dialect of bash, 4.4 or later."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from enum import IntEnum

from environments.shell.dialect.base import (
    FINISHING_NAMES,
    LEFT,
    NEVER_RESTORED,
    Dialect,
    Item,
    ShellRequest,
    Where,
    directory_word,
    finishing_name,
)
from environments.shell.framing import Kind
from environments.shell.state import SessionState, exports_of

USUAL = f"{Where.MAIN.value}_merge"
"""The name of the text after most commands."""
SHORT = 64
"""Bytes of a command up to which plain script is faster. Bash reads a script with one system call per byte."""
_ESCAPED = rb"[\x80-\xff'\\]"
_OURS = r"(?ms)^_[0-9a-f]{3}_e \(\) \n\{.*?^\}\n"
_FUNCTION_FLAG = r"(?m)^(declare -f|alias )"
_TIED = ("BASH_COMPAT", "IGNOREEOF", "POSIXLY_CORRECT")
"""Variables set and unset by bash along with an option."""
_WITH_EXTDEBUG = frozenset({"errtrace", "functrace"})
"""Options enabled by bash along with another."""
_KEPT = ("_", "PWD", "OLDPWD", "SHLVL", "BASHOPTS", "SHELLOPTS")
_FEW_FILES = "the limit of open files is too low for a shell: raise it to 256 or more (ulimit -n)"
USUAL_OPTIONS = frozenset({"braceexpand", "hashall", "interactive-comments"})
"""The initial options of bash. With these bash prints no script text, and continues after errors."""


class Fd(IntEnum):
    """The internal file descriptors, numbered high to avoid a command's own."""

    STDIN = 208
    NULL_IN = 209
    NULL_OUT = 210
    OUT = 211
    ERR = 212
    KEEPALIVE = 29
    KEEPALIVE_END = 214


class Bash(Dialect):
    """Bash. All internal state is in the elements of one array: arrays are never exported, even by `set -a`.

    A trap on EXIT still runs with the redirections of the command that ends the shell, as long as the script itself
    evaluates the command, not another `eval`.
    """

    name = "bash"
    call = "\\builtin"
    program = "\\builtin command -p"
    out, err, stdin, keepalive, keepalive_end = Fd.OUT, Fd.ERR, Fd.STDIN, Fd.KEEPALIVE, Fd.KEEPALIVE_END
    reads_ahead = False
    can_leave = True

    def _item(self, item: int) -> str:
        return f"{self.words}[{item}]" if item else self.words

    @property
    def _behind(self) -> str:
        """The function called after a command, and before some commands."""
        return f"{self.words}_e"

    def definitions(self) -> str:
        texts = {_text_index(name): self._finishing_text(name) for name in FINISHING_NAMES}
        texts |= {Item.BEGIN: self._beginning(), Item.IN_FORK: self._forking(), Item.NUMBER: "0"}
        texts |= {Item.EXIT: self._exit_trap(), Item.LEAVE: self._leave_trap()}
        text = f"${{{self.words}[${{1-{_text_index(USUAL)}}}]-}}"  # no usual argument: bytes are read one by one
        behind = f'{self._behind} () {{ {self._taking_over()}\\builtin eval "{text}"; }}'
        texts |= {Item.AGAIN: f"{behind}; {self._behind}", Item.UNUSUAL: self._unusual()}
        return "\n".join(
            [
                "\\builtin shopt -s expand_aliases",
                f"\\exec {Fd.KEEPALIVE_END}>&1 {Fd.OUT}>&1 {Fd.ERR}>&2 {Fd.NULL_IN}</dev/null {Fd.NULL_OUT}>/dev/null"
                f" || {{ \\builtin echo {shlex.quote(_FEW_FILES)} >&2; \\builtin exit 1; }}",
                f"\\exec 1>&{Fd.NULL_OUT} 2>&{Fd.NULL_OUT}",
                f"{self.words}=()",
                *(f"{self._item(index)}={shlex.quote(text)}" for index, text in texts.items()),
                behind,
                self._choosing_leave_signal(),
                self.new_keepalive(),
                self._arm(),
            ]
        )

    def at_once(self, text: str) -> str:
        # `read -N` counts characters, not bytes.
        if not text.isascii():
            return text
        return f'\\builtin read -rN{len(text)} {self.words}\n{text}\\builtin eval "${self.words}"\n'

    def new_keepalive(self) -> str:
        # Before bash 5.1, a here-string is a file, and costs a fork to replace.
        end, pipe, holds = Fd.KEEPALIVE_END, self._item(Item.PIPE), self._item(Item.SCRIPT)
        named = f'"${{{pipe}}}"'
        opened = f"\\exec {Fd.KEEPALIVE}<>{named}; \\exec {end}<{named}; \\exec {Fd.KEEPALIVE}>&-"  # neither open waits
        return (
            f"\\builtin true >&{Fd.KEEPALIVE}; {holds}=$?; \\exec {end}<<<''; {pipe}=/proc/self/fd/{end}; "
            f"if [[ -p {named} ]]; then \\builtin read -r -u {end}; "
            f"elif [[ -e {named} ]]; then \\exec {end}< <(:); "
            f"elif {self._making_pipe()}; then {opened}; "
            f"else {pipe}=/dev/null; \\exec {end}</dev/null; fi; "
            f"if [[ {self._value(Item.SCRIPT)} = 0 ]]; then :;{self._hold_keepalive()} fi\n"
        )

    def _hold_keepalive(self) -> str:
        return f'\\exec {Fd.KEEPALIVE}>"${{{self._item(Item.PIPE)}}}" || :;'

    def _count(self) -> str:
        return f"{self._item(Item.NUMBER)}=$(({self.words}[{Item.NUMBER}]+1)); {self._mark(self._value(Item.NUMBER))}\n"

    def next(self) -> str:
        return f"{self._count()}{self._hold_keepalive()}\n"

    def _arm(self) -> str:
        quietly = f"{self._behind} {Item.PLACE} >&{Fd.NULL_OUT} 2>&{Fd.NULL_OUT}"  # no text: runs the common part
        leave = f"\\builtin trap '{quietly};{self._behind} {Item.LEAVE}' {self._value(Item.LEAVE_SIGNAL)}"
        return f"\\builtin trap '{self._exiting('$?')}' EXIT; {leave}\n"

    def _exiting(self, code: str) -> str:
        return f"{self._item(Item.CODE)}={code};{self._behind} {Item.EXIT} >&{Fd.NULL_OUT} 2>&{Fd.NULL_OUT}"

    def _noting_end(self) -> str:
        return f"{self._item(Item.CODE)}=${self.words} {self.words}=\n"

    def _finishing_text(self, name: str) -> str:
        if name == f"{Where.SUBSHELL.value}_merge":
            return self._noting_end() + self._finishing_quickly(Kind.END, self._value(Item.CODE))
        return super()._finishing_text(name)

    def _finishing_quickly(self, kind: Kind, code: str) -> str:
        """Return the text after a command that cannot have changed the shell, in few commands.

        The exit code of the look reports leftover processes, and the message increments the number.
        """
        look = f"\\exec {Fd.KEEPALIVE}>&-; \\builtin read -t 0 -u {Fd.KEEPALIVE_END}\n"
        said = self._message(kind, f"$(({self.words}[{Item.NUMBER}]++))", code, "$?")
        ready = f"{self._mark(self._value(Item.NUMBER))}\n{self._hold_keepalive()}"
        return f"{look}{said} >&{Fd.OUT}\n{ready}\n"

    def _beginning(self) -> str:
        """Return text to send BEGIN for a command without side effects: a call is shorter to read byte by byte."""
        return f"\\builtin printf '{self._head(Kind.BEGIN)}%s\\0' \"{self._value(Item.NUMBER)}\" >&{Fd.OUT}\n"

    def _taking_over(self) -> str:
        """Return the beginning of the function: checks for user definitions that would break internal text."""
        works = self._item(Item.WORKS)
        seen = "".join(self._value(item) for item in (Item.WORKS, Item.FIRST, Item.FLAGS))
        usual = f"! \\builtin declare -F exec && [[ {seen}${{BASH_ALIASES[*]+1}} = 1 ]]"
        return f"{works}=; \\builtin printf -v '{works}' 1; {usual} || \\eval \"{self._value(Item.UNUSUAL)}\"; "

    def _unusual(self) -> str:
        """Return text to set aside aliases and the functions `builtin` and `exec`, and to undo `_leave_trap`.

        Internal text would call such a function, and an alias for `if` would change its parse: no reserved word may be
        used until aliases are off. A function `builtin` is detected by its wrong behaviour. The session's next
        evaluated command first restores them.
        """
        functions, flags = self._item(Item.FUNCTIONS), self._value(Item.FLAGS)
        works, aliases = self._value(Item.WORKS), self._item(Item.ALIASES)
        kept = f"{self._value(Item.ALIASES)}{aliases}=;{self._value(Item.FUNCTIONS)}{functions}="
        first = shlex.quote(f'{self._item(Item.FIRST)}=;\\builtin eval "{kept}"\n')
        both = "".join(
            f"case {flags} in *{flag}*) \\builtin set -{flag} ;; *) \\builtin set +{flag} ;; esac; " for flag in "ET"
        )
        left = f"[[ {self._value(Item.COMMAND)} = *[!0-9]* ]] || {self.words}={LEFT}; "
        undo = f"case {flags} in *:extdebug:*) ;; *) \\builtin shopt -u extdebug ;; esac; {both}{left}"
        return (
            f"\\test \"{works}\" || {functions}+=$(\\declare -pf builtin)$'\\n'\n"
            f'\\test "{works}" || \\unset -f builtin\n'
            f"\\builtin test \"${{BASHOPTS##*expand_aliases*}}\" || {aliases}='\\builtin shopt -s expand_aliases;'\n"
            "\\builtin shopt -u expand_aliases\n"
            f"if \\builtin declare -F exec; then "
            f"{functions}=$(\\builtin declare -pf exec)$'\\n'{self._value(Item.FUNCTIONS)}; "
            "\\builtin unset -f exec; fi\n"
            f"if [[ {self._value(Item.ALIASES)} || {self._value(Item.FUNCTIONS)} ]]; then "
            f"{self._item(Item.FIRST)}={first}; fi\n"
            f"if [[ {flags} ]]; then {undo}\\builtin trap - DEBUG; {self._item(Item.FLAGS)}=; fi"
        )

    def _look_for_leftovers(self) -> str:
        left = self._item(Item.LEFT)
        return f"\\exec {Fd.KEEPALIVE}>&-; {left}=1; \\builtin read -t 0 -u {Fd.KEEPALIVE_END} && {left}=0\n"

    def _here(self) -> str:
        here = self._item(Item.HERE)
        return f"{here}=; [[ ${{PWD-}} = /* && $PWD -ef . ]] || {here}=$(\\builtin pwd -P) || :\n"

    def _report(self, how: str) -> str:
        exports = "\\builtin declare -px;\\builtin umask -p"
        put_aside = f"[[ {self._value(Item.FIRST)}${{BASH_ALIASES[*]+1}} ]]"
        others = f'\\builtin alias -p; \\builtin printf %s "{self._value(Item.FUNCTIONS)}"'
        functions = f"\\builtin declare -pf;if {put_aside}; then {others}; fi"
        number = self._value(Item.NUMBER)
        options = f'"${{SHELLOPTS-}}" "${{{self._item(Item.ALIASES)}:+expand_aliases:}}${{BASHOPTS-}}"'
        head = f"\\builtin printf '{self._head(Kind.STATE)}%s\\0%s\\0%s\\0' \"{number}\" {options}"
        # With `set -a` the array would be listed among the exports, although it is not exported.
        hide = f"if [[ ${{{self.words}@a}} = *x* ]]; then \\builtin export -n {self.words}; fi"
        parts = f"{hide};{head};{exports};\\builtin printf '\\0';{functions};\\builtin printf '\\0%s\\0' \"{number}\""
        plain = f"{{ {parts}; }} >&{Fd.ERR}\n"
        if how == "merge":
            return plain
        # Leftover processes may write there as well. A short write is atomic: its bytes stay together.
        line = f'\\builtin printf \'{self._head(Kind.PIECE)}%s\\0%s\\0%s\\0\' "{number}" $part "$l" >&{Fd.ERR}'
        form = "%s\\0" * 5
        count = f"\\builtin printf '{self._head(Kind.PIECES)}{form}' \"{number}\" {options} $n $c >&{Fd.ERR}"
        loop = f"while IFS= \\builtin read -r l; do {line}; n=$((n+1)) c=$((c+${{#l}})); done"
        pieces = f"({hide}; IFS=; n=0 c=0; part=1; {loop} < <({exports}); part=2; {loop} < <({functions}); {count})\n"
        return f'if [[ "{self._value(Item.LEFT)}" = 0 ]]; then {plain}else {pieces}fi\n'

    def _exit_trap(self) -> str:
        """Return the trap on EXIT. It runs within the redirections of the command that ends the shell."""
        quiet = "\\builtin trap - EXIT DEBUG ERR\n"
        # Between commands, EXIT belongs to no command: the number is already the next command's.
        quiet += f'[[ "{self._value(Item.COMMAND)}" ]] || {self._item(Item.NUMBER)}=0\n{self.words}=\n{self._here()}'
        return f"{quiet}{self._look_for_leftovers()}{self._report('separate')}{self._announcing_end()}"

    def _leave_trap(self) -> str:
        """Return the trap that makes the shell leave the running command at any point.

        A failing DEBUG trap makes bash skip the next command if `extdebug` is on. The trap first leaves all loops and
        the current function. Internal commands after the user's are recognized by their first word.

        The user's own TERM trap runs first, because the shell must go on and is not sent TERM. An ignored TERM is
        reset: all children of later commands would ignore TERM too.

        With `set -e` the shell ends here, as it would after the failure of the ended command. The trap may run within
        the EXIT trap, so the EXIT message is sent at once.
        """
        flags, action = self._item(Item.FLAGS), self._item(Item.ON_TERM)
        out = f"{{ \\builtin break 999; \\builtin return 1; }} 2>&{Fd.NULL_OUT}"
        runs = f"{self._value(Item.COMMAND)} = *[!0-9]*"  # and not the exit code of a finished command
        # In a DEBUG trap bash expands aliases even when disabled, so the text has no reserved word.
        skip = (
            f'\\builtin test -z "${{{self.words}//[0-9]}}" || \\builtin test -z "${{BASH_COMMAND##{self.words}*}}" || '
            f"\\builtin eval '\\builtin break 999; \\builtin return 1' 2>&{Fd.NULL_OUT}"
        )
        # Through the keepalive pipe, as a fork may be impossible by now.
        written = f"{{ \\builtin trap -p TERM && \\builtin printf '\\0'; }} >&{Fd.KEEPALIVE}"
        read = f"IFS= \\builtin read -rd '' -u {Fd.KEEPALIVE_END} '{action}'"
        action_of = f"{action}=; {{ {written} && {read}; }} 2>&{Fd.NULL_OUT}; "
        action_of += f"[[ ${{{action}}} != \"trap -- '' \"* ]] || \\builtin trap - TERM; "
        # With `set -o posix` an unset trap is printed too, as `-`.
        action_of += f'[[ ${{{action}}} != "trap -- - "* ]] || {action}=; '
        action_of += f'{action}=${{{action}#trap -- }}; \\builtin eval "{action}=${{{action}% *}}"; '
        return (
            f'if [[ ! {runs} ]]; then :; else {action_of}\\builtin eval "{self._value(Item.ON_TERM)}"; '
            f"if [[ $- = *e* ]]; then {self._exiting(str(LEFT))}; \\builtin exit {LEFT}; else "
            f"{flags}=$-:${{BASHOPTS-}}:; \\builtin shopt -s extdebug; "
            f"\\builtin trap {shlex.quote(skip)} DEBUG; {out}; fi; fi"
        )

    # A request.

    def request(self, request: ShellRequest, number: int, *, announced: bool = False) -> bytes:
        begin = f"{self._behind} {Item.BEGIN};" if announced else ""
        if number > 1 and self._is_usual_fork(request):
            place = f"{self._item(Item.PLACE)}={directory_word(request.cwd or '')}".encode("utf-8", "surrogateescape")
            run = f';\\builtin eval "${{{self._item(Item.IN_FORK)}}}"\n'
            return begin.encode() + self._loading(request) + place + run.encode()
        return super().request(request, number, announced=announced)

    def _is_usual_fork(self, request: ShellRequest) -> bool:
        """Return True if `_forking` can run a request. User commands never qualify in a shell they could change."""
        bare = not (request.separate or request.stdin_file or request.env or request.exports or request.functions)
        return bare and request.where is Where.SUBSHELL and request.cwd is not None

    def _forking(self) -> str:
        """Return text to run a command in a fork, from its `cd` to the text after it."""
        entering = f'\\builtin cd -- "{self._value(Item.PLACE)}" >&{Fd.NULL_OUT} 2>&{Fd.OUT}'
        evaluating = f'\\builtin eval -- "{self._value(Item.FIRST)}${self.words}"'
        index = _text_index(f"{Where.SUBSHELL.value}_merge")
        run = f"({entering} && {evaluating}) <&{Fd.NULL_IN} >&{Fd.OUT} 2>&1"
        return f"{run};{self.words}=$?;{self._behind} {index}"

    def _loading(self, request: ShellRequest) -> bytes:
        command = request.command.encode("utf-8", "surrogateescape")
        if len(command) <= SHORT:
            space = b" " if command.isdigit() else b""  # see `_leave_trap`
            text = self.words.encode() + b"='" + space + command.replace(b"'", b"'\\''") + b"';"
        else:
            text = self._loading_long(command)
        return text + self._opening_input(request).encode()

    def _loading_long(self, command: bytes) -> bytes:
        """Return text to read a command by its length, in one system call. `read -N` counts characters."""
        if command.isascii():
            return f"\\builtin read -rN{len(command)} {self.words}\n".encode() + command
        escaped = re.sub(_ESCAPED, lambda found: b"\\%03o" % found[0][0], command)
        script = self.words.encode() + b"=$'" + escaped + b"'"
        read = f"\\builtin read -rN{len(script)} {self._item(Item.SCRIPT)}\n"
        return read.encode() + script + f'\\builtin eval "{self._value(Item.SCRIPT)}";'.encode()

    def _evaluating(self, request: ShellRequest) -> str:
        by = "command eval" if request.env else "eval"  # with `eval`, variables would apply to its first command alone
        return f'\\builtin {by} -- "{self._value(Item.FIRST)}${self.words}"'

    def _redirections(self, request: ShellRequest) -> str:
        err = f"2>&{Fd.ERR}" if request.separate else "2>&1"
        if not request.where.takes_input:
            return f"<&{Fd.STDIN if request.stdin_file else Fd.NULL_IN} >&{Fd.OUT} {err}"
        return f">&{Fd.OUT} {err}"

    def _finishing(self, request: ShellRequest) -> str:
        # The exit code replaces the command.
        name = finishing_name(request)
        index = "" if name == USUAL else f" {_text_index(name)}"
        text = f"{self.words}=$?;{self._behind}{index}"
        # If a command has removed the function, or even the texts, the shell goes on, or ends with its exit code.
        text += f'||\\eval "${{{self.words}[{Item.AGAIN}]-\\exit ${self.words};}}"{index}'
        return text

    def asking_for_leftovers(self, number: int) -> str:
        # Reopens the keepalive pipe.
        return f"{super().asking_for_leftovers(number)}{self._hold_keepalive()}\n"

    # The state of an earlier shell.

    @classmethod
    def unsetting(cls, name: str, kept: Collection[str]) -> str:
        return (
            f"for {name} in $(\\builtin compgen -e); do case ${name} in {'|'.join(kept)}) ;; "
            f'*) \\builtin unset -v "${name}" ;; esac; done'
        )

    def restoring(self, state: SessionState, *, functions: bool) -> str:
        # Options go first: functions may not parse without them, or with them.
        if not state.is_reported:
            return ""
        name, value = f"{self.words}_n", f"{self.words}_v"
        text = [
            self.unsetting(name, _KEPT),
            f"\\builtin eval {shlex.quote(state.exports)}",
            "\\builtin set +o posix",
        ]
        if on := state.shell_options:
            names = f'$(\\builtin shopt | while \\builtin read -r {name} {value}; do \\builtin echo "${name}"; done)'
            text.append(
                f"for {name} in {names}; do case ${name} in {'|'.join(sorted(on))}) \\builtin shopt -s ${name} ;; "
                f"extdebug|login_shell|restricted_shell|compat*) ;; *) \\builtin shopt -u ${name} ;; esac; done"
            )
        if functions and state.functions:
            named = re.sub(_FUNCTION_FLAG, r"\\builtin \1", re.sub(_OURS, "", state.functions))
            text.append(f"\\builtin eval {shlex.quote(named)}")
            text.append(f"{self._behind} {Item.PLACE}")  # sets aside user definitions that would break later text
        text.append(f"\\builtin unset -v {name} {value}\n")
        # After all text that the options could disturb.
        options = state.options - NEVER_RESTORED
        changes = [f"\\builtin set -o {option}\n" for option in sorted(options - USUAL_OPTIONS)]
        changes += [f"\\builtin set +o {option}\n" for option in sorted((USUAL_OPTIONS | _WITH_EXTDEBUG) - options)]
        exports = exports_of(state)
        tied = "".join(exports[each] for each in _TIED if each in exports)
        if tied:
            changes.append(f"\\builtin eval {shlex.quote(tied)}\n")
        return "\n".join(text) + "".join(changes)


def _text_index(name: str) -> int:
    """Return the index of a text in the array, see `finishing_name`."""
    return Item.FIRST_TEXT + FINISHING_NAMES.index(name)

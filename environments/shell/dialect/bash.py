"""What is said to a bash, 4.4 or later."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection

from environments.shell.dialect.base import FINISHING_NAMES, NEVER_RESTORED, Dialect, finishing_name
from environments.shell.framing import Kind
from environments.shell.request import Request, Where
from environments.shell.state import SessionState

SHORT = 200
"""Bytes of a command up to which it is quicker as script, which bash reads one byte at a system call."""
_COMMAND, _NUMBER, _CODE, _LEFT, _BUILTIN, _FLAGS, _PLACE, _BEFORE, _EXIT, _LEAVE, _SCRIPT, _AGAIN, _UNUSUAL = range(13)
_WORKS, _FIRST_TEXT = 13, 14
_PLAIN = "plain_merge"
_FINISHING = [_PLAIN, *FINISHING_NAMES]
_STDIN, _NULL_IN, _NULL_OUT, _OUT, _ERR, _LEASH, _LEASH_END = 208, 209, 210, 211, 212, 29, 214
_OURS = r"(?ms)^_[0-9a-f]{3}_e \(\) \n\{.*?^\}\n"
_FUNCTION_FLAG = r"(?m)^(declare -f|alias )"
_ESCAPED = rb"[\x80-\xff'\\]"
_KEPT = ("_", "PWD", "OLDPWD", "SHLVL", "BASHOPTS", "SHELLOPTS")
_USUAL_OPTIONS = frozenset({"braceexpand", "hashall", "interactive-comments"})


class Bash(Dialect):
    """Bash. All that we keep in it are the elements of one array, as arrays are never exported, by `set -a` either.

    Between commands the shell's own output goes nowhere, and with it what `set -x` and traps on DEBUG and ERR would
    say about our text. A trap on EXIT still finds the redirections of the command that ends the shell, as long as the
    command is evaluated by the script itself and not by another `eval`.
    """

    name = "bash"
    call = "\\builtin"
    stty = "\\builtin command -p stty"
    out, err, leash, leash_end = _OUT, _ERR, _LEASH, _LEASH_END
    can_leave = True

    def _item(self, index: int) -> str:
        return f"{self.words}[{index}]" if index else self.words

    def _value(self, index: int) -> str:
        return f"${{{self.words}[{index}]-}}"

    def definitions(self) -> str:
        """Return the first text, see `Dialect`. The leash is open to commands through /proc, where there is one."""
        texts = {_FIRST_TEXT + index: self._finishing_text(name) for index, name in enumerate(_FINISHING)}
        texts |= {_EXIT: self._farewell(), _LEAVE: self._leaving(), _NUMBER: "0"}
        behind = f'{self._behind} () {{ {self._taking_over()}\\builtin eval "${{{self.words}[$1]-}}"; }}'
        texts |= {_AGAIN: f"{behind}; {self._behind}", _UNUSUAL: self._unusual()}
        i = f"{self.words}_i"
        without = f"{self.words}[${i}]=${{{self.words}[${i}]//{self._hold_leash()}}}"
        return "\n".join(
            [
                "\\builtin shopt -s expand_aliases",
                f"\\exec {_OUT}>&1 {_ERR}>&2 {_NULL_IN}</dev/null {_NULL_OUT}>/dev/null",
                f"\\exec 1>&{_NULL_OUT} 2>&{_NULL_OUT}",
                f"{self.words}=()",
                *(f"{self._item(index)}={shlex.quote(text)}" for index, text in texts.items()),
                behind,
                self.new_leash(),
                f"[[ -p /proc/self/fd/{_LEASH_END} ]] || for {i} in ${{!{self.words}[@]}}; do {without}; done",
                f"\\builtin unset -v {i}",
                self._arm(),
            ]
        )

    def at_once(self, text: str) -> str:
        """Return the text behind what reads it by its length, see `Dialect`. That counts characters, not bytes."""
        if not text.isascii():
            return text
        return f'\\builtin read -rN{len(text)} {self.words}\n{text}\\builtin eval "${self.words}"\n'

    def new_leash(self) -> str:
        """Return what makes a pipe, see `Dialect`. Before 5.1 a here-string is a file, and costs a fork to replace."""
        end = _LEASH_END
        return (
            f"\\exec {end}<<<''; if [[ -p /proc/self/fd/{end} ]]; then \\builtin read -r -u {end}; "
            f"else \\exec {end}< <(:); fi; if [[ -e /proc/self/fd/{_LEASH} ]]; then :;{self._hold_leash()} fi\n"
        )

    @staticmethod
    def _hold_leash() -> str:
        return f"\\exec {_LEASH}>/proc/self/fd/{_LEASH_END} || :;"

    def _count(self) -> str:
        return f"{self._item(_NUMBER)}=$(({self.words}[{_NUMBER}]+1)); {self._mark(self._value(_NUMBER))}\n"

    def _next(self) -> str:
        """Return what gets ready for the next command."""
        return f"{self._count()}{self._hold_leash()}\n"

    def first(self) -> str:
        """Return what gets ready for the first command, see `Dialect`."""
        return f"if [[ -p /proc/self/fd/{_LEASH_END} ]]; then {self._next()}else {self._count()}fi"

    def _arm(self) -> str:
        """Return the traps: one reports how a command ended the shell, the other is how we make a command end."""
        return f"\\builtin trap '{self._exiting('$?')}' EXIT; \\builtin trap '{self._behind} {_LEAVE}' USR1\n"

    def _exiting(self, code: str) -> str:
        return f"{self._item(_CODE)}={code} {self.words}=;{self._behind} {_EXIT}"

    def _finishing_text(self, name: str) -> str:
        where, _, how = name.partition("_")
        number, code, left = self._value(_NUMBER), self._value(_CODE), self._value(_LEFT)
        end = self._say(Kind.END, number, code, left)
        aside = f"{end} >&{_ERR}\n" if how == "separate" else ""
        look = self._silencing_terminal() + self._look_for_leftovers()
        if name == _PLAIN:
            end = self._say(Kind.HARMLESS_END, number, code, left)
        if where != Where.MAIN.value:
            # A command that fails may not have read all of its input, which must not be taken for script.
            leave = f'[[ "{code}" = 0 ]] || \\builtin exit\n' if where == Where.ATTACHED.value else ""
            return f"{look}{aside}{end} >&{_OUT}\n{leave}{self._next()}"
        said = f"{self._say(Kind.SESSION_END, number, code, left)} >&{_OUT}\n"
        return f"{look}{aside}{said}{self._report(how)}{self._arm()}{self._next()}"

    @property
    def _behind(self) -> str:
        """The function that is called behind a command."""
        return f"{self.words}_e"

    def _taking_over(self) -> str:
        """Return what begins that: it sees whether anything is in the way while we talk, which it mostly is not."""
        works = self._item(_WORKS)
        usual = f"[[ {self._value(_WORKS)}{self._value(_BUILTIN)}{self._value(_FLAGS)} = 1 ]]"
        return f"{works}=; \\builtin printf -v '{works}' 1; {usual} || \\eval \"{self._value(_UNUSUAL)}\"; "

    def _unusual(self) -> str:
        """Return what takes away a function `builtin` of the user's, which our text would call, and undoes `_leaving`.

        The function is known by not doing what it should. The next command of the session begins with bringing it back.
        """
        saved, flags = self._item(_BUILTIN), self._value(_FLAGS)
        again = "".join(f"case {flags} in *{flag}*) \\builtin set -{flag} ;; esac; " for flag in "ET")
        undo = f"\\builtin shopt -u extdebug; \\builtin trap - DEBUG; {again}{self._item(_FLAGS)}="
        return (
            f"if [[ ! {self._value(_WORKS)} ]]; then "
            f"{saved}=$(\\declare -f builtin)$'\\n'; \\unset -f builtin; "
            f"[[ {self._value(_BUILTIN)} = 'builtin ()'* ]] || {saved}=; else {saved}=; fi; "
            f"if [[ {flags} ]]; then {undo}; fi"
        )

    def _look_for_leftovers(self) -> str:
        look = f"if ! \\builtin read -t 0 -u {_LEASH_END}; then {self._item(_LEFT)}=1; fi"
        return f"\\exec {_LEASH}>&-; {self._item(_LEFT)}=0; {look}\n"

    def _report(self, how: str) -> str:
        """Return what reports the state on the channel that is not the command's, if it has one to spare."""
        exports = "\\builtin declare -px;\\builtin umask -p"
        functions = "\\builtin declare -pf;if [[ ${BASH_ALIASES[*]-} ]]; then \\builtin alias -p; fi"
        number = self._value(_NUMBER)
        options = '"${SHELLOPTS-}" "${BASHOPTS-}"'
        head = f"\\builtin printf '{self._head(Kind.STATE)}%s\\0%s\\0%s\\0' \"{number}\" {options}"
        # With `set -a` the array would be among the exports, although it is not exported.
        hide = f"if [[ ${{{self.words}@a}} = *x* ]]; then \\builtin export -n {self.words}; fi"
        parts = f"{hide};{head};{exports};\\builtin printf '\\0';{functions};\\builtin printf '\\0%s\\0' \"{number}\""
        plain = f"{{ {parts}; }} >&{_ERR}\n"
        if how == "merge" and not self.on_terminal:
            return plain
        # What is left of a command may write there as well, and nothing comes between the bytes of one short write.
        line = f'\\builtin printf \'{self._head(Kind.PIECE)}%s\\0%s\\0%s\\0\' "{number}" $part "$l" >&{_ERR}'
        form = "%s\\0" * 5
        count = f"\\builtin printf '{self._head(Kind.PIECES)}{form}' \"{number}\" {options} $n $c >&{_ERR}"
        loop = f"while IFS= \\builtin read -r l; do {line}; n=$((n+1)) c=$((c+${{#l}})); done"
        pieces = f"({hide}; IFS=; n=0 c=0; part=1; {loop} < <({exports}); part=2; {loop} < <({functions}); {count})\n"
        return f'if [[ "{self._value(_LEFT)}" = 0 ]]; then {plain}else {pieces}fi\n'

    def _farewell(self) -> str:
        """Return the trap on EXIT. It runs inside of the redirections of the command that ends the shell."""
        number, code, left = self._value(_NUMBER), self._value(_CODE), self._value(_LEFT)
        quiet = f"\\exec 1>&{_NULL_OUT} 2>&{_NULL_OUT}\n\\builtin trap - EXIT DEBUG ERR\n{self._silencing_terminal()}"
        aside = "" if self.on_terminal else f"{self._say(Kind.EXIT, number, code, left)} >&{_ERR}\n"
        said = f"{self._say(Kind.SESSION_EXIT, number, code, left)} >&{_OUT}\n"
        return f"{quiet}{self._look_for_leftovers()}{self._report('separate')}{aside}{said}"

    def _leaving(self) -> str:
        """Return the trap by which the shell leaves the command it runs, wherever in it that is.

        A trap on DEBUG that fails makes bash skip the next command, if `extdebug` is on. Before that it leaves all
        loops, and the function that it is in. Commands of ours behind the user's are known by their first word.

        With `set -e` the shell ends at a command that failed because it was ended, if not here. This may run in the
        middle of the trap on EXIT, so that what that has to say is said at once.
        """
        saved = self._item(_FLAGS)
        out = f"{{ \\builtin break 999; \\builtin return 1; }} 2>&{_NULL_OUT}"
        runs = self._value(_COMMAND)
        skip = f"[[ ! {runs} || $BASH_COMMAND == {self.words}* ]] || {out}"
        return (
            f"if [[ ! {runs} ]]; then :; "
            f"elif [[ $- = *e* ]]; then {self._exiting('124')}; \\builtin exit 124; else "
            f"{saved}=$-x; \\builtin shopt -s extdebug; \\builtin trap {shlex.quote(skip)} DEBUG; {out}; fi"
        )

    # A request.

    def _loading(self, request: Request) -> bytes:
        command = request.command.encode("utf-8", "surrogateescape")
        if len(command) <= SHORT:
            text = self.words.encode() + b"='" + command.replace(b"'", b"'\\''") + b"';"
        else:
            text = self._loading_long(command)
        if request.stdin_file:
            file = shlex.quote(request.stdin_file)
            text += f"\\exec {_STDIN}<{file};\\builtin command -p rm -f -- {file};".encode()
        return text

    def _loading_long(self, command: bytes) -> bytes:
        """Return what reads a command by its length, at one system call. That counts characters, whatever they are."""
        if command.isascii():
            return f"\\builtin read -rN{len(command)} {self.words}\n".encode() + command
        escaped = re.sub(_ESCAPED, lambda found: b"\\%03o" % found[0][0], command)
        script = self.words.encode() + b"=$'" + escaped + b"'"
        read = f"\\builtin read -rN{len(script)} {self._item(_SCRIPT)}\n"
        return read.encode() + script + f'\\builtin eval "{self._value(_SCRIPT)}";'.encode()

    def _evaluating(self, request: Request) -> str:
        if request.env:  # `builtin eval` would have them for its first command alone
            return f'\\builtin command eval -- "{self._value(_BUILTIN)}${self.words}"'
        return f'\\builtin eval -- "{self._value(_BUILTIN)}${self.words}"'

    def _redirections(self, request: Request) -> str:
        err = f"2>&{_ERR}" if request.separate else "2>&1"
        if not request.where.takes_input:
            usual = _OUT if self.on_terminal else _NULL_IN
            return f"<&{_STDIN if request.stdin_file else usual} >&{_OUT} {err}"
        return f">&{_OUT} {err}"

    def _finishing(self, request: Request, reports: bool) -> str:
        # Where a command has removed our function, or even our texts, the shell goes on, or ends with its exit code.
        index = _FIRST_TEXT + _FINISHING.index(finishing_name(request) if reports else _PLAIN)
        code = self._item(_CODE)
        again = f'\\eval "${{{self.words}[{_AGAIN}]-\\exit ${{{code}}};}}" {index}'
        text = f"{code}=$? {self.words}=;{self._behind} {index}||{again}"
        return f"{text};\\exec {_STDIN}<&-" if request.stdin_file else text

    def _place(self) -> tuple[str, str]:
        return self._item(_PLACE), self._item(_BEFORE)

    def redirecting(self, directory: str) -> str:
        """Return what has the shell speak elsewhere, see `Dialect`."""
        place = shlex.quote(directory)
        return f"\\exec {_OUT}>{place}/1 {_ERR}>{place}/2\n"

    def asking_for_leftovers(self, number: int) -> str:
        """Return the question, see `Dialect`."""
        said = self._say(Kind.END, str(number), "0", self._value(_LEFT))
        return f"{self._look_for_leftovers()}{said} >&{_OUT};{self._hold_leash()}\n"

    # What an earlier shell held.

    @classmethod
    def unsetting(cls, name: str, kept: Collection[str]) -> str:
        """Return what unsets all exported variables but some, see `Dialect`."""
        return (
            f"for {name} in $(\\builtin compgen -e); do case ${name} in {'|'.join(kept)}) ;; "
            f'*) \\builtin unset -v "${name}" ;; esac; done'
        )

    def restoring(self, state: SessionState, *, functions: bool) -> str:
        """Return the text, see `Dialect`. Options go first as functions may not parse without them, or with them."""
        if not state.reported:
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
                f"extdebug|login_shell|restricted_shell) ;; *) \\builtin shopt -u ${name} ;; esac; done"
            )
        if functions and state.functions:
            named = re.sub(_FUNCTION_FLAG, r"\\builtin \1", re.sub(_OURS, "", state.functions))
            text.append(f"\\builtin eval {shlex.quote(named)}")
        text.append(f"\\builtin unset -v {name} {value}\n")
        # Behind everything that they could disturb.
        options = state.options - NEVER_RESTORED
        changes = [f"\\builtin set -o {option}\n" for option in sorted(options - _USUAL_OPTIONS)]
        changes += [f"\\builtin set +o {option}\n" for option in sorted(_USUAL_OPTIONS - options)]
        return "\n".join(text) + "".join(changes)

"""What a bash holds: how it reports that, and how another goes on from there."""

from __future__ import annotations

import re
import shlex
from abc import ABC
from collections.abc import Collection
from enum import IntEnum

from environments.shell.dialect.base import NEVER_RESTORED, Dialect
from environments.shell.framing import Kind
from environments.shell.state import SessionState, exports_of

_OURS = r"(?ms)^_[0-9a-f]{3}_e \(\) \n\{.*?^\}\n"
_FUNCTION_FLAG = r"(?m)^(declare -f|alias )"
_TIED = ("BASH_COMPAT", "IGNOREEOF", "POSIXLY_CORRECT")
"""Variables that bash sets and unsets along with an option."""
_WITH_EXTDEBUG = frozenset({"errtrace", "functrace"})
"""Options that bash turns on with another."""
_KEPT = ("_", "PWD", "OLDPWD", "SHLVL", "BASHOPTS", "SHELLOPTS")
USUAL_OPTIONS = frozenset({"braceexpand", "hashall", "interactive-comments"})
"""Options that a bash begins with. With these it shows nothing of what it reads, and goes on whatever fails."""


class Item(IntEnum):
    """The elements of our array. One digit is read sooner than two."""

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
    FIRST_TEXT = 20


class Fd(IntEnum):
    """The descriptors that are ours, out of a command's way."""

    STDIN = 208
    NULL_IN = 209
    NULL_OUT = 210
    OUT = 211
    ERR = 212
    LEASH = 29
    LEASH_END = 214


class BashState(Dialect, ABC):
    """The part of a bash that outlives it."""

    def _item(self, index: int) -> str:
        return f"{self.words}[{index}]" if index else self.words

    def _value(self, index: int) -> str:
        return f"${{{self.words}[{index}]-}}"

    @property
    def _behind(self) -> str:
        """The function that is called behind a command, and by some before it."""
        return f"{self.words}_e"

    def _report(self, how: str) -> str:
        """Return what reports the state on the channel that is not the command's, if it has one to spare."""
        exports = "\\builtin declare -px;\\builtin umask -p"
        put_aside = f"[[ {self._value(Item.FIRST)}${{BASH_ALIASES[*]+1}} ]]"
        others = f'\\builtin alias -p; \\builtin printf %s "{self._value(Item.FUNCTIONS)}"'
        functions = f"\\builtin declare -pf;if {put_aside}; then {others}; fi"
        number = self._value(Item.NUMBER)
        options = f'"${{SHELLOPTS-}}" "${{{self._item(Item.ALIASES)}:+expand_aliases:}}${{BASHOPTS-}}"'
        head = f"\\builtin printf '{self._head(Kind.STATE)}%s\\0%s\\0%s\\0' \"{number}\" {options}"
        # With `set -a` the array would be among the exports, although it is not exported.
        hide = f"if [[ ${{{self.words}@a}} = *x* ]]; then \\builtin export -n {self.words}; fi"
        parts = f"{hide};{head};{exports};\\builtin printf '\\0';{functions};\\builtin printf '\\0%s\\0' \"{number}\""
        plain = f"{{ {parts}; }} >&{Fd.ERR}\n"
        if how == "merge":
            return plain
        # What is left of a command may write there as well, and nothing comes between the bytes of one short write.
        line = f'\\builtin printf \'{self._head(Kind.PIECE)}%s\\0%s\\0%s\\0\' "{number}" $part "$l" >&{Fd.ERR}'
        form = "%s\\0" * 5
        count = f"\\builtin printf '{self._head(Kind.PIECES)}{form}' \"{number}\" {options} $n $c >&{Fd.ERR}"
        loop = f"while IFS= \\builtin read -r l; do {line}; n=$((n+1)) c=$((c+${{#l}})); done"
        pieces = f"({hide}; IFS=; n=0 c=0; part=1; {loop} < <({exports}); part=2; {loop} < <({functions}); {count})\n"
        return f'if [[ "{self._value(Item.LEFT)}" = 0 ]]; then {plain}else {pieces}fi\n'

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
                f"extdebug|login_shell|restricted_shell|compat*) ;; *) \\builtin shopt -u ${name} ;; esac; done"
            )
        if functions and state.functions:
            named = re.sub(_FUNCTION_FLAG, r"\\builtin \1", re.sub(_OURS, "", state.functions))
            text.append(f"\\builtin eval {shlex.quote(named)}")
            text.append(f"{self._behind} {Item.PLACE}")  # puts aside what would be in the way of what follows
        text.append(f"\\builtin unset -v {name} {value}\n")
        # Behind everything that they could disturb.
        options = state.options - NEVER_RESTORED
        changes = [f"\\builtin set -o {option}\n" for option in sorted(options - USUAL_OPTIONS)]
        changes += [f"\\builtin set +o {option}\n" for option in sorted((USUAL_OPTIONS | _WITH_EXTDEBUG) - options)]
        exports = exports_of(state)
        tied = "".join(exports[each] for each in _TIED if each in exports)
        if tied:
            changes.append(f"\\builtin eval {shlex.quote(tied)}\n")
        return "\n".join(text) + "".join(changes)

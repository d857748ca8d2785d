"""Which commands cannot have changed what a bash holds, so that it need not be reported behind them.

That is so if a command is a few plain words, of which the first is a program, or one of the builtins that only print.
Anything that is quoted, expanded, assigned or joined may change something, and so may a function or an alias.
"""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z0-9_./@%+:-]+(?: +[A-Za-z0-9_./@%+=:,^-]+)*")
# All of its builtins and reserved words but :, echo, false, pwd, test and true.
_WORDS_OF_BASH = """
. [ alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare dirs disown
do done elif else enable esac eval exec exit export fc fg fi for function getopts hash help history if in jobs kill
let local logout mapfile popd printf pushd read readarray readonly return select set shift shopt source suspend then
time times trap type typeset ulimit umask unalias unset until wait while
"""
_CHANGERS = frozenset(_WORDS_OF_BASH.split())


def changes_nothing(command: str, functions: str) -> bool:
    """Whether a command leaves exports, functions, aliases, options and the umask as they are.

    Args:
        command: The command.
        functions: The functions and aliases there are, as bash prints them.
    """
    if len(command) > 500 or not _PLAIN.fullmatch(command):
        return False
    word = command.partition(" ")[0]
    if "/" in word:
        return True
    if word in _CHANGERS:
        return False
    return f"{word} ()" not in functions and f"alias {word}=" not in functions and f"-- {word}=" not in functions

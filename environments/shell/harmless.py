"""Which commands cannot have changed what a bash holds, so that it need not be reported behind them.

That is so if a command is made of words of which nothing is expanded but file names, and the first of each part is a
program, or one of the builtins that only print. Anything that is evaluated or assigned may change something, and so may
a function or an alias.
"""

from __future__ import annotations

import re

_FIRST = r"[A-Za-z0-9_./@%+:-]+"
_PLAIN = re.compile(rf"{_FIRST}(?: +[A-Za-z0-9_./@%+=:,^-]+)*")
_WORD = r"""(?:[A-Za-z0-9_./@%+=:,^~*?{}\[\]-]|'[^']*'|"[^"$`\\]*")+"""
_REDIRECTION = rf"(?:[012]?>&[012]|[012]?(?:>>?|<) *{_WORD})"
_PART = rf"{_FIRST}(?: +(?:{_REDIRECTION}|{_WORD}))*"
_PARTS = re.compile(rf"{_PART}(?: *(?:&&|\|\|?|;) *{_PART})*")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_BETWEEN = re.compile(r" *(?:&&|\|\|?|;) *")
MOST_CHARACTERS = 1000
"""Characters of a command that is looked at. A longer one is hardly harmless, and takes its time."""
# All of its builtins and reserved words but :, echo, false, pwd, test and true.
_WORDS_OF_BASH = """
. [ alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare dirs disown
do done elif else enable esac eval exec exit export fc fg fi for function getopts hash help history if in jobs kill
let local logout mapfile popd printf pushd read readarray readonly return select set shift shopt source suspend then
time times trap type typeset ulimit umask unalias unset until wait while
"""
_CHANGERS = frozenset(_WORDS_OF_BASH.split())


def is_plain(command: str) -> bool:
    """Whether a command is a few plain words, which mean the same wherever in a script they stand."""
    return _PLAIN.fullmatch(command) is not None


def changes_nothing(command: str, functions: str) -> bool:
    """Whether a command leaves exports, functions, aliases, options and the umask as they are.

    Args:
        command: The command.
        functions: The functions and aliases there are, as bash prints them.
    """
    if len(command) > MOST_CHARACTERS:
        return False
    if is_plain(command):
        return _is_no_changer(command, functions)
    if not _PARTS.fullmatch(command):
        return False
    bare = _QUOTED.sub("x", command)
    return all(_is_no_changer(part, functions) for part in _BETWEEN.split(bare))


def _is_no_changer(part: str, functions: str) -> bool:
    word = part.partition(" ")[0]
    if "/" in word:
        return True
    if word in _CHANGERS:
        return False
    return f"{word} ()" not in functions and f"alias {word}=" not in functions and f"-- {word}=" not in functions

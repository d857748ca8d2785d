"""Shell text that starts a program with an environment built from a list, and not at all if that cannot be had.

Taking away what is not wanted would fail open: a shell does not know of variables whose names it could not use itself,
such as MY-API.KEY, and hands them on. `env -i` begins with none.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from environments.secrets import SAFE_NAMES, SAFE_PREFIXES, SECRET_WORDS

NOT_RUN = 126
"""Exit code when nothing was run because there is no `env`."""


def running_clean(program: str, path: str = "") -> str:
    """Return shell text that becomes a program which sees the harmless variables alone.

    Their names and values are arguments of `env` for a moment.

    Args:
        program: Shell text: the program and its arguments, and redirections.
        path: The program's PATH; empty is the shell's own.
    """
    if path:  # of two settings of one variable the latter holds
        program = f"PATH={shlex.quote(path)} {program}"
    return f"""\
{_COLLECT}
command -v env >/dev/null 2>&1 || {{
  echo "nothing was run: its environment is made by the program env, which is missing here; install coreutils" >&2
  exit {NOT_RUN}
}}
exec env -i "$@" {program}
exit {NOT_RUN}
"""


def running_clean_with(variables: Mapping[str, str], argv: str, path: str = "") -> str:
    """Return the same for a program that also gets variables which must not show in any process list.

    They travel over the input of a shell behind `env`, which hands the program the input that it was started with.

    Args:
        variables: The variables.
        argv: Shell text: the program and its arguments.
        path: See `running_clean`.
    """
    if not variables:
        return running_clean(argv, path)
    script = f'{exporting(variables)}exec "$@" <&3 3<&-\n'
    end = "HX_VARIABLES"
    while end in script:
        end += "_"
    return running_clean(f"/bin/sh -s -- {argv} 3<&0 <<'{end}'\n{script}{end}", path)


def running_with_exports(variables: Mapping[str, str], argv: str, path: str = "", allowed: Iterable[str] = ()) -> str:
    """Return the same for a program that also gets all that the shell exports, but for what is named as secrets are.

    That travels over the input, too: what somebody exports is for nobody else to see.

    Args:
        variables: The variables, which take the place of what the shell exports by the same names.
        argv: Shell text: the program and its arguments.
        path: See `running_clean`.
        allowed: Names that pass although they are those of secrets.
    """
    others = f"hermes_given=$hermes_given{shlex.quote(chr(10) + exporting(variables))}\n"
    program = f'/bin/sh -s -- {argv} 3<&0 <<HERMES_GIVEN\n$hermes_given\nexec "\\$@" <&3 3<&-\nHERMES_GIVEN'
    return _exports(allowed) + others + running_clean(program, path)


def exporting(variables: Mapping[str, str]) -> str:
    """Return shell text that exports variables, a line for each."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def _any_case(word: str) -> str:
    return "".join(f"[{letter}{letter.lower()}]" if letter.isalpha() else letter for letter in word)


def _secret_names() -> str:
    """Return the pattern of a shell's `case` for names of secrets."""
    return "|".join(f"*{_any_case(word)}*" for word in SECRET_WORDS)


def _collecting() -> str:
    """Return shell text that makes the harmless variables that are set the arguments of the shell, as `NAME=VALUE`.

    Only by the shell's own means, of which each kind can list names in another way. Where it cannot, what goes by its
    prefix is left out. A name that goes over two lines in the list is none.
    """
    named = " ".join(f'${{{name}+"{name}=${name}"}}' for name in SAFE_NAMES)
    secret = _secret_names()
    bash_names = " ".join(f"${{!{prefix}@}}" for prefix in SAFE_PREFIXES)
    prefixes = "|".join(f"{prefix}?*" for prefix in SAFE_PREFIXES)
    return f"""\
set -- {named}
if [ -n "${{BASH_VERSION-}}" ]; then
  eval 'for n in {bash_names}; do case $n in {secret}) ;; *) set -- "$@" "$n=${{!n}}" ;; esac; done'
else
  set -f
  IFS='
'
  for n in $(export -p 2>/dev/null); do
    n=${{n#export }} n=${{n%%=*}}
    case $n in *[!A-Za-z0-9_]*|{secret}) ;; {prefixes}) eval "set -- \\"\\$@\\" \\"$n=\\${{$n-}}\\"" ;; esac
  done
fi"""


_COLLECT = _collecting()


def _exports(allowed: Iterable[str]) -> str:
    """Return shell text that makes what is exported shell text again, which any `sh` can read.

    The list goes by lines, and what follows on a line break in a value may look like another variable: then it is one,
    with its own name and value, or is left out.
    """
    kept = "|".join(["''", "[0-9]*", "*[!A-Za-z0-9_]*", "_", *SAFE_NAMES])
    passing = "|".join(["''", *allowed])
    return f"""\
hermes_given=$(
  set -f
  IFS='
'
  q="'" r="'\\\\''"
  for n in $(export -p 2>/dev/null); do
    case $n in 'export '*) n=${{n#export }} ;; 'declare -'*' '*) n=${{n#declare -* }} ;; *) continue ;; esac
    n=${{n%%=*}}
    case $n in {kept}) continue ;; {passing}) ;; {_secret_names()}) continue ;; esac
    eval "s=\\${{$n+set}} v=\\${{$n-}} o="
    [ -n "$s" ] || continue
    if [ -n "${{BASH_VERSION-}}" ]; then
      eval 'v=${{v//"$q"/"$r"}}'
    else
      while :; do case $v in *"$q"*) o=$o${{v%%"$q"*}}$r v=${{v#*"$q"}} ;; *) break ;; esac; done
    fi
    printf '%s\\n' "export $n='$o$v'"
  done
)
"""

"""Shell text that starts a program with an environment built from a list, and not at all if that cannot be had.

Taking away what is not wanted would fail open: a shell does not know of variables whose names it could not use itself,
such as MY-API.KEY, and hands them on. `env -i` begins with none.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from environments.secrets import (
    DENSE,
    DENSE_WITH_DIGIT,
    FORMS,
    HARMLESS_NAMES,
    HARMLESS_PARTS,
    SAFE_NAMES,
    SAFE_PREFIXES,
    SCHEMES,
    SECRET_NAMES,
    SECRET_PARTS,
)

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


_LOWER, _UPPER = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PAIRS = "".join(lower + upper for lower, upper in zip(_LOWER, _UPPER, strict=True))
_DENSE = "[0-9A-Za-z]"
_ALPHANUMERIC = (_DENSE, "[0-9A-Z]", "[0-9a-f]", "[0-9a-fA-F]")
_RUN = 8
"""Characters of a token that one part of a pattern stands for."""


_SHORTEST = min(len(prefix) + form.least for form in FORMS for prefix in form.prefixes)


def _any_case(word: str) -> str:
    return "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in word)


def _prefixes() -> str:
    """Return patterns that are quickly tried, as bash is slow with classes."""
    return "|".join(f"*{shlex.quote(prefix)}*" for form in FORMS for prefix in form.prefixes)


def _tokens(*, dense: bool) -> str:
    """Return patterns of a shell's `case` that match all values with a token in them, and a few others.

    Args:
        dense: Of the forms that words may have, too, or else of the others.
    """
    return "|".join(
        f"*[!0-9A-Za-z_]{shlex.quote(prefix)}{run * (form.least // _RUN)}*"
        for form in FORMS
        if form.is_dense == dense
        for run in ("$hermes_a" if form.letters in _ALPHANUMERIC else "$hermes_t",)
        for prefix in form.prefixes
    )


def _schemes() -> str:
    return "|".join(f"*{_any_case(scheme)}[!0-9A-Za-z]*$hermes_t*" for scheme in SCHEMES)


IS_SECRET = f"""\
set -f
[ -z "${{BASH_VERSION-}}" ] || shopt -u nocasematch
hermes_is_secret() {{
  hermes_w=$1 hermes_b=$1
  case $1 in *[{_LOWER}]*)
    hermes_r=$1 hermes_w= hermes_b= hermes_l=
    while [ -n "$hermes_r" ]; do
      hermes_c=${{hermes_r%"${{hermes_r#?}}"}} hermes_r=${{hermes_r#?}} hermes_s=
      case $hermes_c in
        [{_LOWER}]) hermes_c=${{hermes_pairs#*"$hermes_c"}} hermes_c=${{hermes_c%"${{hermes_c#?}}"}} hermes_l=1 ;;
        [{_UPPER}])
          case $hermes_l.$hermes_r in 1.*|.[{_LOWER}]*) hermes_s=_ ;; esac
          hermes_l= ;;
        *) hermes_l= ;;
      esac
      hermes_w=$hermes_w$hermes_c hermes_b=$hermes_b$hermes_s$hermes_c
    done
    hermes_b=${{hermes_w}}_$hermes_b ;;
  esac
  case $hermes_w in
    {"|".join(HARMLESS_NAMES)}) ;;
    *)
      case _$hermes_b in {"|".join(SECRET_NAMES)}) return 0 ;; esac
      IFS=_0123456789
      for hermes_c in $hermes_b; do
        case $hermes_c in {"|".join(HARMLESS_PARTS)}) ;; {"|".join(SECRET_PARTS)}) unset IFS; return 0 ;; esac
      done
      unset IFS ;;
  esac
  case $2 in *://*@*)
    hermes_l= IFS=/
    for hermes_c in $2; do
      case $hermes_l$hermes_c in
        //*@*)
          case ${{hermes_c%@*}} in *:????*|$hermes_t$hermes_t*) unset IFS; return 0 ;; esac ;;
      esac
      case $hermes_l.$hermes_c in *:) hermes_l=: ;; :.) hermes_l=// ;; *) hermes_l= ;; esac
    done
    unset IFS ;;
  esac
  [ ${{#2}} -ge {_SHORTEST} ] || return 1
  case $2 in *{_any_case("authorization")}*) case $2 in {_schemes()}) return 0 ;; esac ;; esac
  case $2 in *'-----BEGIN '*) case $2 in *'PRIVATE KEY'*) return 0 ;; esac ;; esac
  case $2 in {_prefixes()}) ;; *) return 1 ;; esac
  case " $2" in {_tokens(dense=False)}) return 0 ;; {_tokens(dense=True)}) ;; *) return 1 ;; esac
  case $2 in *{_DENSE * DENSE}*) return 0 ;; *{_DENSE * DENSE_WITH_DIGIT}*) case $2 in *[0-9]*) return 0 ;; esac ;; esac
  return 1
}}
hermes_pairs={_PAIRS} hermes_a='[0-9A-Za-z]' hermes_t='[0-9A-Za-z_.~+/=-]'
hermes_a={"$hermes_a" * _RUN} hermes_t={"$hermes_t" * _RUN}
"""
"""Shell text that defines `hermes_is_secret NAME VALUE`, which decides as `environments.secrets` does.

What is known by its form is known in linear time, and some ordinary values are taken for it. Ranges such as `[a-z]`
depend on the locale, so letters are listed where their case counts.
"""


def _collecting() -> str:
    """Return shell text that makes the harmless variables that are set the arguments of the shell, as `NAME=VALUE`.

    Only by the shell's own means, of which each kind can list names in another way. Where it cannot, what goes by its
    prefix is left out. A name that goes over two lines in the list is none.
    """
    named = " ".join(f'${{{name}+"{name}=${name}"}}' for name in SAFE_NAMES)
    bash_names = " ".join(f"${{!{prefix}@}}" for prefix in SAFE_PREFIXES)
    prefixes = "|".join(f"{prefix}?*" for prefix in SAFE_PREFIXES)
    return f"""\
{IS_SECRET}set -- {named}
if [ -n "${{BASH_VERSION-}}" ]; then
  eval 'for n in {bash_names}; do hermes_is_secret "$n" "${{!n}}" || set -- "$@" "$n=${{!n}}"; done'
else
  IFS='
'
  for n in $(export -p 2>/dev/null); do
    n=${{n#export }} n=${{n%%=*}}
    case $n in *[!A-Za-z0-9_]*) continue ;; {prefixes}) ;; *) continue ;; esac
    eval "hermes_v=\\${{$n-}}"
    hermes_is_secret "$n" "$hermes_v" || set -- "$@" "$n=$hermes_v"
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
{IS_SECRET}hermes_given=$(
  IFS='
'
  hermes_q="'" hermes_e="'\\\\''"
  for hermes_n in $(export -p 2>/dev/null); do
    case $hermes_n in
      'export '*) hermes_n=${{hermes_n#export }} ;;
      'declare -'*' '*) hermes_n=${{hermes_n#declare -* }} ;;
      *) continue ;;
    esac
    hermes_n=${{hermes_n%%=*}}
    case $hermes_n in {kept}) continue ;; esac
    eval "hermes_set=\\${{$hermes_n+set}} hermes_v=\\${{$hermes_n-}} hermes_o="
    [ -n "$hermes_set" ] || continue
    case $hermes_n in {passing}) ;; *) ! hermes_is_secret "$hermes_n" "$hermes_v" || continue ;; esac
    if [ -n "${{BASH_VERSION-}}" ]; then
      eval 'hermes_v=${{hermes_v//"$hermes_q"/"$hermes_e"}}'
    else
      while :; do
        case $hermes_v in *"$hermes_q"*) ;; *) break ;; esac
        hermes_o=$hermes_o${{hermes_v%%"$hermes_q"*}}$hermes_e hermes_v=${{hermes_v#*"$hermes_q"}}
      done
    fi
    printf '%s\\n' "export $hermes_n='$hermes_o$hermes_v'"
  done
)
"""

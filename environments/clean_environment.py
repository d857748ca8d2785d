"""Shell text that starts a program with an environment of allowed variables only, by `env -i`.

Removing unwanted variables would fail open: a shell passes on variables with invalid names, such as MY-API.KEY, without
listing them. `env -i` starts empty. If no `env` is found, the program does not run.
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
"""Exit code of a program not started, for lack of `env` in the target."""


def running_clean(program: str, path: str = "") -> str:
    """Return shell text that replaces the shell by a program with the harmless variables only.

    Names and values are briefly visible as arguments of `env`.

    Args:
        program: Shell text: the program, its arguments and redirections.
        path: The program's PATH; empty keeps the shell's.
    """
    if path:  # the last setting of a variable counts
        program = f"PATH={shlex.quote(path)} {program}"
    return f"""\
{_COLLECT}
command -v env >/dev/null 2>&1 || {{
  echo "nothing was run: the program env, which sets the environment, is missing; install coreutils" >&2
  exit {NOT_RUN}
}}
exec env -i "$@" {program}
exit {NOT_RUN}
"""


def running_clean_with(variables: Mapping[str, str], argv: str, path: str = "") -> str:
    """Like `running_clean`, for a program with variables hidden from process lists.

    The variables travel over the stdin of a shell behind `env`. The program then inherits the original stdin.

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
    """Like `running_clean`, for a program with all exports of the shell, except secrets.

    The exports travel over stdin too, hidden from process lists.

    Args:
        variables: Variables that override exports of the same name.
        argv: Shell text: the program and its arguments.
        path: See `running_clean`.
        allowed: Names of secrets to pass anyway.
    """
    others = f"hermes_given=$hermes_given{shlex.quote(chr(10) + exporting(variables))}\n"
    program = f'/bin/sh -s -- {argv} 3<&0 <<HERMES_GIVEN\n$hermes_given\nexec "\\$@" <&3 3<&-\nHERMES_GIVEN'
    return _exports(allowed) + others + running_clean(program, path)


def exporting(variables: Mapping[str, str]) -> str:
    """Return shell text that exports variables, one a line."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


_LOWER, _UPPER = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PAIRS = "".join(lower + upper for lower, upper in zip(_LOWER, _UPPER, strict=True))
_DENSE = "[0-9A-Za-z]"
_ALPHANUMERIC = (_DENSE, "[0-9A-Z]", "[0-9a-f]", "[0-9a-fA-F]")
_RUN = 8
"""Characters of a token matched by one part of a pattern."""


_SHORTEST = min(len(prefix) + form.least for form in FORMS for prefix in form.prefixes)


def _any_case(word: str) -> str:
    return "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in word)


def _prefixes() -> str:
    """Return cheap patterns for a first test: bash is slow with character classes."""
    return "|".join(f"*{shlex.quote(prefix)}*" for form in FORMS for prefix in form.prefixes)


def _tokens(*, dense: bool) -> str:
    """Return `case` patterns for values that hold a token. A few ordinary values match too.

    Args:
        dense: True for the forms that ordinary words may have; False for all others.
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
"""Shell text that defines `hermes_is_secret NAME VALUE`, with the decisions of `environments.secrets`.

Known forms are matched in linear time, at the price of some ordinary values. Ranges such as `[a-z]` depend on the
locale, so letters are listed where case matters."""


def _collecting() -> str:
    """Return shell text that sets the shell's arguments to the harmless variables, as `NAME=VALUE`.

    The text uses builtins only, and each kind of shell lists names in a different way. Without such a list, variables
    known by prefix are dropped. A name that spans two lines of the list is ignored.
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
    """Return shell text that turns the exports back into shell text for any `sh`.

    The list is read by lines. The rest of a value with a line break may look like another variable: it is then treated
    as such, with its own name and value, or dropped.
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

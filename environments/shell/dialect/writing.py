"""Shell text that writes, moves and removes single files of a target, in the step that checks whether it may.

What the texts have in common are functions, which a shell is given once, see `Request.functions`: parsing them takes
as long as all else that a small write does in the shell itself.
"""

from __future__ import annotations

import functools
import os
import shlex
import zlib
from collections.abc import Iterable
from pathlib import PurePosixPath

from environments.files import ANY, CRLF_LIMIT, WriteConditions
from environments.shell.dialect.files import FUNCTIONS, LONGEST_PATH, MOST_LINKS, SMALL, resolving
from environments.write_guard import WriteGuard

NOT_HERE = 45
"""Exit code by which the texts below report that the target lacks what takes the contents."""
REFUSED, CHANGED, IS_CRLF, EXISTS = 44, 43, 42, 41
"""Exit codes for conditions of writing that do not hold. The first has the reason in its output."""
FAILED = 40
"""Exit code by which they report that a file cannot be written, before the last program has a code of its own."""
LAST_FAILED = frozenset((1, 2, 4, 126, 127, 137))
"""Exit codes of the last program of a quick text, `mv` or `sed`, or of a target that has none: all is as it was."""
NOT_SIMPLE = 49
"""Exit code by which they report that they do not replace a part of a file, as it is not as simple as they need it."""
HAS_SED, NO_SED = "sed", "no sed"
"""Printed by a quick text that replaces a file, as it found the `sed` that it needs, or not."""
BLOCK = 1024 * 1024
"""Bytes that are moved at a time. `head` moves 8 KB, or in BusyBox one."""

# The shell goes into the directory and works there on the bare name, so that no directory on the way can be swapped for
# a link between the look and the write. What is missing is made one by one, as `mkdir -p` follows such a link.
# A link is followed from the directory that it is in, so that what it points at is replaced.
_FIND = f"""\
refuse() {{ echo "$@"; exit {REFUSED}; }}
lost() {{ [ -z "$guard" ] || refuse lost; exit {FAILED}; }}
judge() {{ [ -z "$guard" ] || "judge_$guard" "$1"; }}
climb() {{
  at=. ups=.
  until [ "$at" -ef / ]; do
    at=$at/.. ups="$ups $at"
    [ "${{#at}}" -lt {LONGEST_PATH} ] || lost
  done
}}
under() {{
  for up in $ups; do [ ! "$up" -ef "$1" ] || return 0; done
  return 1
}}
judge_aliases() {{ [ -z "$guard" ] || "judge_aliases_$guard" "$1"; }}
enter() {{
  folder=${{path%/*}} name=${{path##*/}} rest=
  until cd -P -- "${{folder:-/}}" 2>/dev/null; do
    [ ! -L "$folder" ] || lost
    rest=${{folder##*/}}/$rest folder=${{folder%/*}}
  done
  judge "$rest$name"
  [ -z "$rest" ] || [ -z "$looks" ] || exit 0
  while [ -n "$rest" ]; do
    made=${{rest%%/*}} rest=${{rest#*/}}
    [ -n "$made" ] || continue
    mkdir -- "./$made" 2>/dev/null || [ -d "./$made" ] || exit {FAILED}
    cd -P -- "./$made" 2>/dev/null || exit {FAILED}
    judge "$rest$name"
  done
}}
enter_first() {{
  absolute
  home=${{HOME-}}
  [ -z "$guard" ] || [ -z "$home" ] || ! cd -P -- "$home" 2>/dev/null || home=${{PWD%/}}
  enter
}}
vacant() {{ if [ -e "./$name" ] || [ -L "./$name" ]; then exit {EXISTS}; fi; }}
find_place() {{
  enter_first
  [ -z "$must_be_new" ] || vacant
  links=0
  while [ -L "./$name" ]; do
    [ "$links" -lt {MOST_LINKS} ] || exit {FAILED}
    links=$((links + 1))
    to=$(readlink -- "./$name" && echo .) || exit {FAILED}
    to=${{to%??}}
    to=${{to%"${{to##*[!/]}}"}}
    case $to in /*) path=$to ;; *) path=$PWD/$to ;; esac
    enter
  done
  [ ! -d "./$name" ] || exit {FAILED}
  new=1 now= is_small=
  [ -e "./$name" ] || return 0
  new=
  if [ ! -f "./$name" ]; then echo "it is not a regular file" >&2; exit {FAILED}; fi
  [ -w "./$name" ] || [ -O "./$name" ] || exit {FAILED}
  begin
  [ -z "$unless_crlf" ] || ! crlf || exit {IS_CRLF}
}}
"""
# The shell's own `read` takes what a small file holds into $now, or the beginning of another one. It ends with success
# at a NUL or at the limit. Without `-d` it would skip NULs, and go through all of a file that holds nothing else.
_COMPARE = f"""\
begin() {{
  now= is_small=
  [ -n "${{BASH_VERSION-}}" ] && [ -r "./$name" ] || return 0
  IFS= read -r -d '' -n {SMALL + 1} now <"./$name" || is_small=1
}}
crlf() {{
  [ -s "./$name" ] || return 1
  case $now in *'
'*) case ${{now%%'
'*}} in *'\r') ;; *) return 1 ;; esac ;; esac
  [ "$(wc -c <"./$name")" -le {CRLF_LIMIT} ] || return 1
  ends=$(grep -a -c '\r$' "./$name") && [ "$ends" -eq "$(wc -l <"./$name")" ]
}}
same_text() {{
  [ -z "$new" ] || exit {CHANGED}
  if [ -z "${{BASH_VERSION-}}" ]; then same_digest "$1" "$2"; return; fi
  [ -n "$is_small" ] && [ "$now" = "$3" ] || exit {CHANGED}
}}
same_digest() {{
  [ -z "$new" ] || exit {CHANGED}
  if command -v sha256sum >/dev/null; then [ "$(sha256sum <"./$name")" = "$2  -" ] || exit {CHANGED}
  else [ "$(($(wc -c <"./$name")))" -eq "$1" ] || exit {CHANGED}
  fi
}}
"""
# The permissions of a file that is there are kept. The umask gives them where it can, as `chmod` is a process. Bits
# have three digits, the last three. The end of a stream may be that of the link it comes over, so that its bytes are
# counted. A rename to what has just become a directory would be a move into it: BusyBox has `-T`, macOS has not.
_PUT = f"""\
prepare() {{
  owner= later=1 part=./.hermes-$unique
  if [ -z "$mode" ] && [ -z "$new" ]; then
    owner=$(stat -c '%h 00%a %u:%g' -- "./$name") && {{
      case $owner in '1 '*) ;; *) judge_aliases "$name" ;; esac
      owner=${{owner#* }}
      mode=${{owner%% *}} owner=${{owner#* }}
      mode=${{mode#"${{mode%???}}"}}
    }}
  fi
  [ -z "$mode" ] || umask "$((1777 - 1$mode))"
  case $mode in '' | [46][46][46]) later= ;; esac
  trap 'trap "" TERM INT HUP PIPE; rm -f -- "$part"; exit 1' TERM INT HUP PIPE
}}
fail() {{ rm -f -- "$part"; exit {FAILED}; }}
whole() {{
  [ -z "$size" ] || [ "$(($(stat -c %s -- "$part" 2>/dev/null || wc -c <"$part")))" -eq "$size" ] || {{
    echo "only a part of it has come" >&2
    false
  }}
}}
settle() {{
  if [ -n "$owner" ]; then
    [ -O "./$name" ] && [ -G "./$name" ] && [ -O "$part" ] && [ -G "$part" ] || chown "$owner" "$part" 2>/dev/null
  fi
  [ -z "$later" ] || chmod "$mode" "$part"
}}
renamed() {{ mv -fT -- "$1" "./$name" 2>/dev/null || {{ [ ! -d "./$name" ] && mv -f -- "$1" "./$name"; }}; }}
finish() {{
  [ $? = 0 ] && whole && settle && renamed "$part" || fail
  [ -z "$new" ] || echo new
}}
"""
# The last process takes the place of the shell, and is not ended before it has put the file into its place. GNU sed
# does by itself what otherwise `stat`, `chown` and `mv` do: `-i` writes into a file beside the first, which gets the
# permissions and the owner of that, and then its name. It leaves out what was there, as one line that ends at a NUL,
# and takes another such line by `R`: all of its input. `r` would do, too, but takes an input that it cannot open for an
# empty one, where `R` has it open already.
_PUT_QUICKLY = f"""\
is_for_sed() {{
  [ "$sed" = 1 ] && [ -z "$new$mode" ] && [ -n "$is_small" ] && [ -n "$now" ] || return 1
  case $text in *'
') ;; *) return 1 ;; esac
}}
put_by_sed() {{
  judge_aliases "$name"
  trap '' TERM INT HUP PIPE
  replace_by_sed exec sed -i 2>/dev/null
}}
replace_by_sed() {{
  unset -v POSIXLY_CORRECT
  eval '"$@" -n -z "1{{R /dev/stdin
q
}}" "./$name" <<<"${{text%?}}"'
}}
look_for_sed() {{
  [ -z "$sed" ] && [ -n "$is_small" ] && [ -n "$now" ] || return 0
  case $(sed --version 2>/dev/null) in *'(GNU sed)'*)
    text='two
lines
'
    if [ "$(replace_by_sed sed 2>/dev/null)" = 'two
lines' ]; then echo {HAS_SED}; return; fi
  esac
  echo {NO_SED}
}}
replace_once() {{
  [ -n "$is_small" ] || exit {NOT_SIMPLE}
  case $now in *'\r'*) exit {NOT_SIMPLE} ;; *"$old"*) ;; *) exit {NOT_SIMPLE} ;; esac
  first=${{now%%"$old"*}}
  eval 'rest=${{now:${{#first}}+1}} behind=${{now:${{#first}}+${{#old}}}}'
  case $rest in *"$old"*) exit {NOT_SIMPLE} ;; esac
  text=$first$put$behind
  is_for_sed || exit {NOT_SIMPLE}
  printf %s "$now"
  put_by_sed
}}
put_quickly() {{
  ! is_for_sed || put_by_sed
  prepare
  printf %s "$text" >"$part" && settle || fail
  if [ -n "$new" ]; then echo new; else look_for_sed; fi
  trap '' TERM INT HUP PIPE
  exec mv -fT -- "$part" "./$name" 2>/dev/null
}}
"""
WRITING = _FIND + _COMPARE + _PUT + _PUT_QUICKLY
"""The functions that all texts below use, beside `FUNCTIONS`."""


def needed(guard: WriteGuard | None) -> tuple[str, ...]:
    """Return the functions that the texts below use with a guard, see `Request.functions`."""
    return (FUNCTIONS, WRITING) if guard is None else (FUNCTIONS, WRITING, _judging(guard))


@functools.lru_cache(maxsize=8)
def _judging(guard: WriteGuard) -> str:
    """Return functions that end a text if a file must not be written, given by names below the shell's directory.

    `judge` is called for each place on the way, `judge_aliases` for a file that may have several names.
    """
    # A bash takes $PWD from the names on the way, so that a link which is gone by now could make it wrong. What
    # /proc/self/cwd leads to is right. It is compared by its text, but where a denied path is a link or behind one:
    # then `-ef` asks the system, from the directory that the shell is in upwards. Of a denied path that is missing, the
    # nearest directory that is there is known in the same way, and the names below it are compared.
    denied, name = [_word(path) for path in guard.denied], _name_of(guard)
    above = {folder for path in guard.denied for folder in PurePosixPath(path).parents if folder.name not in ("", "~")}
    links = [*map(_word, sorted(map(str, above))), *denied]
    patterns = "\n".join(f"    {path}/*) refuse denied {number} ;;" for number, path in enumerate(denied, 1))
    rooted = ":"
    if guard.safe_root:
        root = _word(guard.safe_root) if guard.safe_root != "/" else "/"
        rooted = f"climb; [ -d {root} ] || refuse rootless; under {root} || refuse outside"
    return f"""\
judge_{name}() {{
  case /$1/ in */../*) lost ;; esac
  linked=
  cd -P /proc/self/cwd 2>/dev/null || linked=1
  case ${{PWD%/}}/$1/ in
{patterns}
  esac
  if {_any("-L {}", links)}; then linked=1; fi
  [ -z "$linked" ] || judge_links_{name} "$1"
  {rooted}
}}
judge_aliases_{name}() {{
  if {_any('{} -ef "./$1"', denied)}; then judge_links_{name} "$1"; fi
}}
judge_links_{name}() {{
  climb
  number=0
  for denied in {" ".join(denied)}; do
    number=$((number + 1)) names=${{denied##*/}} top=${{denied%/*}}
    if [ -e "${{denied:-/}}" ]; then
      [ ! "./$1" -ef "${{denied:-/}}" ] || refuse denied "$number"
      if [ -d "${{denied:-/}}" ] && under "${{denied:-/}}"; then refuse denied "$number"; fi
    fi
    until [ -d "${{top:-/}}" ]; do names=${{top##*/}}/$names top=${{top%/*}}; done
    case $1/ in "$names"/*) [ ! . -ef "${{top:-/}}" ] || refuse denied "$number" ;; esac
  done
}}
"""


@functools.lru_cache(maxsize=8)
def _name_of(guard: WriteGuard | None) -> str:
    return f"{zlib.crc32(repr(guard).encode()):08x}" if guard else ""


def _any(test: str, paths: Iterable[str]) -> str:
    """Return a test whether any of some paths passes a test. One for all takes half the time of one for each."""
    return f"[ {' -o '.join(test.format(path) for path in paths)} ]"


def _word(path: str) -> str:
    """Return a path as a word of the text, without a slash at its end. $home is where the home directory really is."""
    if path == "~" or path.startswith("~/"):
        return '"$home"' + (shlex.quote(path[1:]) if path[1:] else "")
    return shlex.quote(path.rstrip("/"))


def _given(path: str, guard: WriteGuard | None, **values: object) -> str:
    """Return what sets the variables of the functions."""
    given = {"guard": _name_of(guard), "path": path.rstrip("/") or "/", **values}
    return f"export LC_ALL=C\n{' '.join(f'{key}={shlex.quote(str(value))}' for key, value in given.items())}\n"


def _finding(path: str, conditions: WriteConditions, **values: object) -> str:
    """Return what goes to a file, sets $new unless there is one, and ends if the conditions do not hold."""
    new, crlf = ("1" if each else "" for each in (conditions.must_be_new, conditions.unless_crlf))
    text = f"{_given(path, conditions.guard, must_be_new=new, unless_crlf=crlf, **values)}find_place\n"
    return text if conditions.expected is None else f"{text}{_comparing(conditions.expected)}"


def _comparing(expected: bytes) -> str:
    """Return what ends with `CHANGED` unless `./$name` holds these bytes."""
    import hashlib  # which few files need

    given, text = f"{len(expected)} {hashlib.sha256(expected).hexdigest()}", as_text(expected)
    return f"same_digest {given}\n" if text is None else f"same_text {given} {shlex.quote(text)}\n"


def as_text(data: bytes) -> str | None:
    """Return bytes as they can stand in shell text; None if they are many, hold NUL bytes or are not UTF-8."""
    if len(data) > SMALL or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def placing(
    path: str, command: str, mode: str = "", size: int | None = None, conditions: WriteConditions = ANY, part: str = ""
) -> str:
    """Return what puts what a command prints in the place of a file, in one step, and prints `new` if none was there.

    It ends with one of the codes `REFUSED`, `CHANGED`, `IS_CRLF` and `EXISTS` if the conditions do not hold.

    Args:
        path: The file.
        command: Prints its contents.
        mode: Its permission bits, in octal; empty keeps those that are there, or takes the usual ones.
        size: Its bytes, if they are known; with fewer, what is there stays as it is.
        conditions: Conditions.
        part: The last part of the name of the file beside it that is written first; empty is a new one.
    """
    return f'{_finding(path, conditions, **_place(mode, size, part))}prepare\n{command} >"$part"\nfinish\n'


def _place(mode: str, size: int | None = None, part: str = "") -> dict[str, object]:
    bits, count = mode and mode.zfill(3), "" if size is None else size
    return {"looks": "", "mode": bits, "size": count, "unique": part or os.urandom(6).hex()}


def saying(path: str, text: str, mode: str = "", conditions: WriteConditions = ANY, part: str = "") -> str:
    """Return what puts a text in the place of a file; `NOT_HERE` where `printf` is a program, which shows its words.

    The arguments are those of `placing`.
    """
    return _HAS_PRINTF + placing(path, f"printf %s {shlex.quote(text)}", mode, conditions=conditions, part=part)


def saying_quickly(
    path: str, text: str, mode: str = "", conditions: WriteConditions = ANY, part: str = "", has_sed: bool | None = None
) -> str:
    """Return what does the same as `saying` with one process less, or two.

    If the last step fails, with one of the codes `LAST_FAILED`, a file beside the place is left: then the same is to be
    done again by `saying`, with the same name for that.

    Args:
        path: The file.
        text: Its contents.
        mode: Its permission bits.
        conditions: Conditions.
        part: The last part of the name of the file beside it.
        has_sed: Whether the target has GNU sed; None is to find out, and print `HAS_SED` if it has.
    """
    sed = "" if has_sed is None else int(has_sed)
    finding = _finding(path, conditions, sed=sed, **_place(mode, part=part))
    return f"{_HAS_PRINTF}{finding}text={shlex.quote(text)}\nput_quickly\n"


_HAS_PRINTF = f'[ -n "${{BASH_VERSION-}}" ] || case $(command -V printf) in *builtin*) ;; *) exit {NOT_HERE} ;; esac\n'


def replacing(path: str, old: str, new: str, guard: WriteGuard) -> str:
    """Return what replaces the only occurrence of a text in a small file, and prints what that held before.

    It ends with `NOT_SIMPLE` where the file holds the text not once, or NULs or carriage returns, or no newline at its
    end; where there is none; and where the target has no GNU sed. It may end with any other code but 0, too: then the
    file is as it was.

    Args:
        path: The file.
        old: The text.
        new: What takes its place.
        guard: Files that are not written.
    """
    given = f"old={shlex.quote(old)}\nput={shlex.quote(new)}\n"
    return f"exec 2>/dev/null\n{_finding(path, WriteConditions(guard), sed=1, looks=1, mode='')}{given}replace_once\n"


def decoding(path: str, text: str, mode: str = "", conditions: WriteConditions = ANY) -> str:
    """Return what puts bytes, given as base64, in the place of a file; `NOT_HERE` where nothing there decodes it."""
    check = f"command -v base64 >/dev/null || exit {NOT_HERE}\n"
    return check + placing(path, f"echo {text} | base64 -d", mode, conditions=conditions)


def taking(size: int) -> str:
    """Return what prints so many bytes of its input, and leaves what is behind them unread."""
    if size <= BLOCK:
        return f"head -c {size}"
    blocks, exactly = (size - 1) // BLOCK, "dd iflag=fullblock status=none"
    return f"""\
if {exactly} count=0 </dev/null >/dev/null 2>&1
then {exactly} bs={BLOCK} count={blocks} && {exactly} bs={size - blocks * BLOCK} count=1
else head -c {size}
fi"""


def checking(path: str, conditions: WriteConditions) -> str:
    """Return what ends with one of the codes of `placing` if the conditions do not hold, and changes nothing."""
    return _finding(path, conditions, looks=1)


def moving(source: str, target: str, guard: WriteGuard) -> str:
    """Return what gives a file another path, and ends with one of the codes of `placing` if it may not have that."""
    there = _given(target, guard, looks="")
    return f'{resolving(source)}source=$path\n{there}enter_first\nvacant\nrenamed "$source"\n'


def deleting(path: str, guard: WriteGuard) -> str:
    """Return what removes a file if it is there, and ends with one of the codes of `placing` if it may not."""
    return f'{_given(path, guard, looks=1)}enter_first\nrm -f -- "./$name"\n'

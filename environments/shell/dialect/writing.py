"""Texts that write, move and remove single files of a target, each check and write in one step.

The texts share functions, sent to a shell once, see `ShellRequest.functions`: parsing them takes as long as all else in
a small write.
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
"""Exit code for a target without the program to decode the contents."""
REFUSED, CHANGED, IS_CRLF, EXISTS = 44, 43, 42, 41
"""Exit codes for broken conditions of writing. REFUSED prints the reason."""
FAILED = 40
"""Exit code for a failed write, before the last program has its own exit code."""
LAST_FAILED = frozenset((1, 2, 4, 126, 127, 137))
"""Exit codes of the last program of a quick text, `mv` or `sed`, or of a target without this program: the file is
unchanged."""
NOT_SIMPLE = 49
"""Exit code for a file too complex for an in-place replacement."""
HAS_SED, NO_SED = "sed", "no sed"
"""Printed by a quick text after a replacement: the needed `sed` was found, or not."""
BLOCK = 1024 * 1024
"""Bytes moved at a time. `head` moves 8 KB, or in BusyBox one."""

# The shell enters the directory and works on the bare name, so that no directory of the path can be swapped for a link
# between check and write. Missing directories are made one by one, as `mkdir -p` follows such a link. A link is
# followed from its own directory, so that its target is replaced.
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
# The shell's own `read` loads a small file into $now, or the beginning of a larger file. `read` succeeds at a NUL or at
# the limit. Without `-d` it would skip NULs, and read all of a file with NULs alone.
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
# An existing file keeps its permissions. The umask sets them where possible, as `chmod` is a process. Mode bits have
# three digits, the last three. An end of stream may be the end of the link, so bytes are counted. A rename to a path
# that has just become a directory would move into the directory: BusyBox has `-T`, macOS has not.
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
# The last process replaces the shell, and renames the file before its end. GNU sed replaces `stat`, `chown` and `mv`:
# `-i` writes a file beside the first, copies permissions and owner, and renames it. sed drops the old contents as one
# line that ends at a NUL, and reads another such line by `R`: all of its input. `r` would work too, but takes an input
# without read permission for an empty one; `R` uses the open descriptor.
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
"""The functions of all texts below, beside `FUNCTIONS`."""


def needed(guard: WriteGuard | None) -> tuple[str, ...]:
    """Return the functions of the texts below for a guard, see `ShellRequest.functions`."""
    return (FUNCTIONS, WRITING) if guard is None else (FUNCTIONS, WRITING, _judging(guard))


@functools.lru_cache(maxsize=8)
def _judging(guard: WriteGuard) -> str:
    """Return functions that end a text if a file must not be written. Names are relative to the shell's directory.

    `judge` is called for each directory of the path, `judge_aliases` for a file with possibly several names.
    """
    # A bash derives $PWD from names, so a removed link could make $PWD wrong. The target of /proc/self/cwd is right. It
    # is compared as text, unless a denied path is a link or behind a link: then `-ef` asks the system, from the shell's
    # directory upwards. For a missing denied path, the nearest existing directory is compared by `-ef`, and the names
    # below as text.
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
    """Return a test for any of some paths. One test for all takes half the time of one for each."""
    return f"[ {' -o '.join(test.format(path) for path in paths)} ]"


def _word(path: str) -> str:
    """Return a path as a word of the text, without a final slash. $home is the resolved home directory."""
    if path == "~" or path.startswith("~/"):
        return '"$home"' + (shlex.quote(path[1:]) if path[1:] else "")
    return shlex.quote(path.rstrip("/"))


def _given(path: str, guard: WriteGuard | None, **values: object) -> str:
    """Return text to set the variables of the functions."""
    given = {"guard": _name_of(guard), "path": path.rstrip("/") or "/", **values}
    return f"export LC_ALL=C\n{' '.join(f'{key}={shlex.quote(str(value))}' for key, value in given.items())}\n"


def _finding(path: str, conditions: WriteConditions, **values: object) -> str:
    """Return text to enter a file's directory, set $new unless the file exists, and end on broken conditions."""
    new, crlf = ("1" if each else "" for each in (conditions.must_be_new, conditions.unless_crlf))
    text = f"{_given(path, conditions.guard, must_be_new=new, unless_crlf=crlf, **values)}find_place\n"
    return text if conditions.expected is None else f"{text}{_comparing(conditions.expected)}"


def _comparing(expected: bytes) -> str:
    """Return text that ends with `CHANGED` unless `./$name` has these bytes."""
    import hashlib  # needed for few files

    given, text = f"{len(expected)} {hashlib.sha256(expected).hexdigest()}", as_text(expected)
    return f"same_digest {given}\n" if text is None else f"same_text {given} {shlex.quote(text)}\n"


def as_text(data: bytes) -> str | None:
    """Return bytes as shell text; None if they are too many, contain NUL bytes or are not UTF-8."""
    if len(data) > SMALL or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def placing(
    path: str, command: str, mode: str = "", size: int | None = None, conditions: WriteConditions = ANY, part: str = ""
) -> str:
    """Return text to replace a file by a command's output in one step, and print `new` if there was no file.

    The text ends with `REFUSED`, `CHANGED`, `IS_CRLF` or `EXISTS` on broken conditions.

    Args:
        path: The file.
        command: Prints the contents.
        mode: The permission bits in octal; empty keeps existing bits, or takes the umask's.
        size: The bytes, if known; with fewer, the file stays unchanged.
        conditions: Conditions.
        part: The suffix of the temporary file's name; empty makes a new name.
    """
    return f'{_finding(path, conditions, **_place(mode, size, part))}prepare\n{command} >"$part"\nfinish\n'


def _place(mode: str, size: int | None = None, part: str = "") -> dict[str, object]:
    bits, count = mode and mode.zfill(3), "" if size is None else size
    return {"looks": "", "mode": bits, "size": count, "unique": part or os.urandom(6).hex()}


def writing_text(path: str, text: str, mode: str = "", conditions: WriteConditions = ANY, part: str = "") -> str:
    """Return text to replace a file by a text; `NOT_HERE` if `printf` is a program with visible arguments.

    The arguments are those of `placing`.
    """
    return _HAS_PRINTF + placing(path, f"printf %s {shlex.quote(text)}", mode, conditions=conditions, part=part)


def writing_text_quickly(
    path: str, text: str, mode: str = "", conditions: WriteConditions = ANY, part: str = "", has_sed: bool | None = None
) -> str:
    """Return text with the effect of `writing_text` and one or two processes less.

    If the last step fails, with one of the codes `LAST_FAILED`, a temporary file is left: repeat by `writing_text`,
    with the same `part`.

    Args:
        path: The file.
        text: The contents.
        mode: The permission bits.
        conditions: Conditions.
        part: The suffix of the temporary file's name.
        has_sed: True if the target has GNU sed; None to look for GNU sed, and print `HAS_SED` or `NO_SED`.
    """
    sed = "" if has_sed is None else int(has_sed)
    finding = _finding(path, conditions, sed=sed, **_place(mode, part=part))
    return f"{_HAS_PRINTF}{finding}text={shlex.quote(text)}\nput_quickly\n"


_HAS_PRINTF = f'[ -n "${{BASH_VERSION-}}" ] || case $(command -V printf) in *builtin*) ;; *) exit {NOT_HERE} ;; esac\n'


def replacing(path: str, old: str, new: str, guard: WriteGuard) -> str:
    """Return text to replace the only occurrence of a text in a small file, and print the old contents.

    The text ends with `NOT_SIMPLE` if the file is missing, has not exactly one occurrence, contains NULs or carriage
    returns, or lacks a final newline; or if the target has no GNU sed. After any other exit code but 0 the file is
    unchanged too.

    Args:
        path: The file.
        old: The text.
        new: The replacement.
        guard: Denied files.
    """
    given = f"old={shlex.quote(old)}\nput={shlex.quote(new)}\n"
    return f"exec 2>/dev/null\n{_finding(path, WriteConditions(guard), sed=1, looks=1, mode='')}{given}replace_once\n"


def decoding(path: str, text: str, mode: str = "", conditions: WriteConditions = ANY) -> str:
    """Return text to replace a file by base64-encoded bytes; `NOT_HERE` if the target has no decoder."""
    check = f"command -v base64 >/dev/null || exit {NOT_HERE}\n"
    return check + placing(path, f"echo {text} | base64 -d", mode, conditions=conditions)


def reading_input(size: int) -> str:
    """Return text to print so many bytes of its input, and leave the rest unread."""
    if size <= BLOCK:
        return f"head -c {size}"
    blocks, exactly = (size - 1) // BLOCK, "dd iflag=fullblock status=none"
    return f"""\
if {exactly} count=0 </dev/null >/dev/null 2>&1
then {exactly} bs={BLOCK} count={blocks} && {exactly} bs={size - blocks * BLOCK} count=1
else head -c {size}
fi"""


def checking(path: str, conditions: WriteConditions) -> str:
    """Return text that ends with one of `placing`'s codes on broken conditions, and changes no file."""
    return _finding(path, conditions, looks=1)


def moving(source: str, target: str, guard: WriteGuard) -> str:
    """Return text to rename a file. It ends with one of `placing`'s codes if the new path is denied."""
    there = _given(target, guard, looks="")
    return f'{resolving(source)}source=$path\n{there}enter_first\nvacant\nrenamed "$source"\n'


def deleting(path: str, guard: WriteGuard) -> str:
    """Return text to remove a file if present. It ends with one of `placing`'s codes if the file is denied."""
    return f'{_given(path, guard, looks=1)}enter_first\nrm -f -- "./$name"\n'

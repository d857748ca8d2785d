"""What looks at, moves, makes and removes files and directories, in words that every POSIX shell knows.

Why something could not be done is found out without reading what a program says, which is in any language. A text that
has failed is followed by another one, `explaining`. It looks at a path and at what is on the way there with the shell's
own tests, each of which is a system call, and ends with an exit code that stands for the system's error number.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
import re
import shlex
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from environments.files import ANY, CRLF_LIMIT, WriteTerms
from environments.write_guard import WriteGuard

_BASE = 60
"""What exit codes are above the error numbers that they stand for."""
_FOUND = (
    errno.ENOENT,
    errno.EACCES,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)
MOST_LINKS = 40
"""Links that Linux follows on the way to one file."""
LONGEST_PATH = 4096
"""Bytes from which on Linux takes a path no more."""
_LONGEST_NAME = 255
"""Bytes that a file's name has on nearly every file system."""


def error_number(exit_code: int) -> int:
    """Return the error number that an exit code of `explain` stands for, 0 if it is none of those."""
    return exit_code - _BASE if exit_code - _BASE in _FOUND else 0


def failing(number: int) -> str:
    """Return the command that ends a text with an error number."""
    return f"exit {_BASE + number}"


# Goes down to $path, through links that the shell cannot look through, as what they point at is missing or out of
# reach. Leaves it as $entry, and the directory that it is in as $folder. The search permission is asked for with the
# name `.`, as BusyBox has an opinion of its own on what root may enter. $1: what was to be done.
_EXPLAIN = f"""\
explain() {{
  folder= entry=/ rest=$path links=0
  while [ -n "$rest" ]; do
    name=${{rest%%/*}} more=
    case $rest in */*) rest=${{rest#*/}} more=1 ;; *) rest= ;; esac
    [ -n "$name" ] || continue
    entry=$folder/$name
    if [ "${{#name}}" -gt 63 ]; then
      [ "$(printf %s "$name" | wc -c)" -le {_LONGEST_NAME} ] || {failing(errno.ENAMETOOLONG)}
    fi
    if [ -L "$entry" ] && [ ! -e "$entry" ]; then
      case $more$1 in link | remove | rmtree | mkdir | mkdirs) break ;; esac
      links=$((links + 1))
      [ "$links" -le {MOST_LINKS} ] || {failing(errno.ELOOP)}
      to=$(readlink -- "$entry" && echo .) || return
      to=${{to%??}}
      rest=$to${{more:+/$rest}}
      case $to in /*) folder= entry=/ ;; esac
      continue
    fi
    [ -n "$more" ] || break
    if [ -d "$entry" ]; then [ -e "$entry/." ] || {failing(errno.EACCES)}
    elif [ -e "$entry" ]; then {failing(errno.ENOTDIR)}
    else
      case $links$1 in 0write | 0mkdirs | 0fill) changeable; cannot_hold "$entry"; return ;; esac
      {failing(errno.ENOENT)}
    fi
    folder=$entry
  done
  explain_"$1"
}}
"""
# Each is what is in the way of one thing, when nothing is on the way to it. `look` follows a link, `link` does not;
# `read` and `write` are of a file, `list`, `pack` and `fill` of a directory.
_PURPOSES = f"""\
explain_look() {{ [ -e "$entry" ] || {failing(errno.ENOENT)}; }}
explain_link() {{ [ -e "$entry" ] || [ -L "$entry" ] || {failing(errno.ENOENT)}; }}
explain_read() {{
  explain_look
  [ ! -d "$entry" ] || {failing(errno.EISDIR)}
  [ ! -f "$entry" ] || [ -r "$entry" ] || {failing(errno.EACCES)}
}}
explain_write() {{
  [ ! -d "$entry" ] || {failing(errno.EISDIR)}
  [ ! -e "$entry" ] || [ -w "$entry" ] || [ -O "$entry" ] || unwritable "$entry"
  changeable
  another_users
  [ -e "$entry" ] || cannot_hold "$entry"
}}
explain_list() {{
  explain_look
  [ -d "$entry" ] || {failing(errno.ENOTDIR)}
  [ -r "$entry" ] && [ -e "$entry/." ] || {failing(errno.EACCES)}
}}
explain_pack() {{ explain_list; closed 'r'; }}
explain_fill() {{
  if [ -d "$entry" ]; then [ -w "$entry" ] && [ -e "$entry/." ] || unwritable "$entry"; closed 'w'
  elif [ -e "$entry" ]; then {failing(errno.ENOTDIR)}
  else [ "$links" = 0 ] || {failing(errno.ENOTDIR)}; changeable; cannot_hold "$entry"
  fi
}}
explain_mkdir() {{
  if [ -e "$entry" ] || [ -L "$entry" ]; then {failing(errno.EEXIST)}; fi
  changeable
  cannot_hold "$entry"
}}
explain_mkdirs() {{ explain_mkdir; }}
explain_remove() {{
  explain_link
  if [ -d "$entry" ] && [ ! -L "$entry" ]; then {failing(errno.EISDIR)}; fi
  changeable
  another_users
}}
explain_rmtree() {{
  explain_link
  changeable
  another_users
  [ -L "$entry" ] || closed 'w'
}}
"""
# What they ask. Nobody changes a file system that is mounted for reading: that is no question of permissions.
_QUESTIONS = f"""\
unwritable() {{
  best= how=
  if [ -d "$1" ]; then place=$(cd -P -- "$1" && pwd -P)
  else place=$(cd -P -- "${{1%/*}}/" && pwd -P)/${{1##*/}}
  fi
  while read -r _ mount _ options _; do
    case $place/ in "${{mount%/}}"/*) [ "${{#mount}}" -lt "${{#best}}" ] || best=$mount how=$options ;; esac
  done 2>/dev/null </proc/self/mounts
  case ,$how, in *,ro,*) {failing(errno.EROFS)} ;; esac
  {failing(errno.EACCES)}
}}
changeable() {{ [ -w "$folder/" ] || unwritable "$folder/"; }}
another_users() {{
  [ -k "$folder/" ] && [ ! -O "$folder/" ] || return 0
  [ -L "$entry" ] || [ -e "$entry" ] || return 0
  me=$(id -u)
  case $me in 0 | "$(stat -c %u -- "$entry")") ;; *) {failing(errno.EACCES)} ;; esac
}}
cannot_hold() {{
  case $1 in /proc/*) {failing(errno.ENOENT)} ;; /sys/*) {failing(errno.EACCES)} ;; esac
}}
closed() {{
  found=$(find "$entry/" -exec sh -c '
    for f do
      if [ -L "$f" ]; then :
      elif [ -d "$f" ]; then [ -r "$f" ] && [ -e "$f/." ] && [ -'"$1"' "$f" ] || echo closed
      elif [ '"$1"' = r ] && [ -f "$f" ]; then [ -r "$f" ] || echo closed
      fi
    done' sh {{}} + 2>/dev/null | head -n 1)
  [ -z "$found" ] || {failing(errno.EACCES)}
}}
"""
EXPLAIN = _EXPLAIN + _PURPOSES + _QUESTIONS
"""Text that defines `explain`, see above. Set in front: $path, absolute."""

# Files.

NOT_HERE = 45
"""Exit code by which the texts below say that the target lacks what takes the contents."""
REFUSED, CHANGED, IS_CRLF, EXISTS = 44, 43, 42, 41
"""Exit codes by which they say that the terms of writing do not hold. The first has the reason in its output."""
FAILED = 2
"""Exit code by which they say that a file cannot be written, before `mv` could say so with a code of its own."""
SMALL = 16 * 1024
"""Bytes up to which a file's contents are in a command, or are read by the shell itself."""
BLOCK = 1024 * 1024
"""Bytes that are moved at a time. `head` moves 8 KB, or in BusyBox one."""

# Set in front of each: $path. A relative path is taken from where the command runs, the session's directory. One that
# is too long is refused here, as some programs go a part of the way.
_ABSOLUTE = f"""\
case $path in '~') path=$HOME ;; '~/'*) path=$HOME/${{path#'~/'}} ;; esac
case $path in /*) ;; *) path=$PWD/$path ;; esac
[ "${{#path}}" -lt 1024 ] || [ "$(printf %s "$path" | wc -c)" -lt {LONGEST_PATH} ] || {failing(errno.ENAMETOOLONG)}
"""
# `missing` ends a text at once where nothing is at $path, and nothing but its name can be the reason.
_MISSING = f"""\
missing() {{
  name=${{path##*/}}
  [ "${{#name}}" -gt 63 ] || [ -e "$path" ] || [ -L "$path" ] || [ ! -e "${{path%/*}}/." ] || {failing(errno.ENOENT)}
}}
"""
# The shell goes into the directory and works there on the bare name, so that no directory on the way can be swapped for
# a link between the look and the write. What is missing is made one by one, as `mkdir -p` follows such a link.
# A link is followed from the directory that it is in, so that what it points at is replaced.
_ENTER = """\
lost() { UNPLACED; }
enter() {
  folder=${path%/*} name=${path##*/} rest=
  until cd -P -- "${folder:-/}" 2>/dev/null; do
    [ ! -L "$folder" ] || lost
    rest=${folder##*/}/$rest folder=${folder%/*}
  done
  judge "$rest$name"
  while [ -n "$rest" ]; do
    made=${rest%%/*} rest=${rest#*/}
    [ -n "$made" ] || continue
    mkdir -- "./$made" 2>/dev/null || [ -d "./$made" ] || exit FAILED
    cd -P -- "./$made" 2>/dev/null || exit FAILED
    judge "$rest$name"
  done
}
enter
""".replace("exit FAILED", f"exit {FAILED}")
_VACANT = f'if [ -e "./$name" ] || [ -L "./$name" ]; then exit {EXISTS}; fi\n'
_FOLLOW = """\
links=0
while [ -L "./$name" ]; do
  [ "$links" -lt MOST_LINKS ] || exit FAILED
  links=$((links + 1))
  to=$(readlink -- "./$name" && echo .) || exit FAILED
  to=${to%??}
  to=${to%"${to##*[!/]}"}
  case $to in /*) path=$to ;; *) path=$PWD/$to ;; esac
  enter
done
[ ! -d "./$name" ] || exit FAILED
new=1
if [ -e "./$name" ]; then
  new=
  if [ ! -f "./$name" ]; then echo "it is not a regular file" >&2; exit FAILED; fi
  [ -w "./$name" ] || [ -O "./$name" ] || exit FAILED
fi
""".replace("MOST_LINKS", str(MOST_LINKS)).replace("exit FAILED", f"exit {FAILED}")
_MAKE = '  while [ -n "$rest" ]; do\n'
# A bash takes $PWD from the names on the way, so that a link which is gone by now could make it wrong. What
# /proc/self/cwd leads to is right. It is compared by its text, but where a denied path is a link or behind one: then
# `-ef` asks the system, from the directory that the shell is in upwards. Of a denied path that is missing, the nearest
# directory that is there is known in the same way, and the names below it are compared.
_JUDGE = f"""\
home=${{HOME-}}
[ -z "$home" ] || ! cd -P -- "$home" 2>/dev/null || home=${{PWD%/}}
refuse() {{ echo "$@"; exit {REFUSED}; }}
under() {{
  for up in $ups; do [ ! "$up" -ef "$1" ] || return 0; done
  return 1
}}
climb() {{
  at=. ups=.
  until [ "$at" -ef / ]; do
    at=$at/.. ups="$ups $at"
    [ "${{#at}}" -lt {LONGEST_PATH} ] || lost
  done
}}
judge() {{
  case /$1/ in */../*) lost ;; esac
  number=0 linked=
  for each in ABOVE; do [ ! -L "$each" ] || linked=1; done
  cd -P /proc/self/cwd 2>/dev/null || linked=1
  for denied in DENIED; do
    number=$((number + 1))
    case ${{PWD%/}}/$1/ in "$denied"/*) refuse denied "$number" ;; esac
    [ ! -L "$denied" ] || linked=1
  done
  [ -z "$linked" ] || judge_links "$1"
  ROOTED
}}
judge_links() {{
  climb
  number=0
  for denied in DENIED; do
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
_ROOTED = "climb; [ -d ROOT ] || refuse rootless; under ROOT || refuse outside"
# The permissions of a file that is there are kept. The umask gives them where it can, as `chmod` is a process. Bits
# have three digits, the last three. The end of a stream may be that of the link it comes over, so that its bytes are
# counted. A rename to what has just become a directory would be a move into it: BusyBox has `-T`, macOS has not.
_PUT = """\
owner= later=1 part=./.hermes-$unique
if [ -z "$mode" ] && [ -z "$new" ]; then
  owner=$(stat -c '%h 00%a %u:%g' -- "./$name") && {
    case $owner in '1 '*) ;; *) judge_links "$name" ;; esac
    owner=${owner#* }
    mode=${owner%% *} owner=${owner#* }
    mode=${mode#"${mode%???}"}
  }
fi
[ -z "$mode" ] || umask "$((1777 - 1$mode))"
case $mode in '' | [46][46][46]) later= ;; esac
whole() {
  [ -z "$size" ] || [ "$(($(stat -c %s -- "$part" 2>/dev/null || wc -c <"$part")))" -eq "$size" ] || {
    echo "only a part of it has come" >&2
    false
  }
}
settle() {
  if [ -n "$owner" ]; then
    [ -O "./$name" ] && [ -G "./$name" ] && [ -O "$part" ] && [ -G "$part" ] || chown "$owner" "$part" 2>/dev/null
  fi
  [ -z "$later" ] || chmod "$mode" "$part"
}
moved() {
  mv -fT -- "$part" "./$name" 2>/dev/null || { [ ! -d "./$name" ] && mv -f -- "$part" "./$name"; }
}
trap 'trap "" TERM INT HUP PIPE; rm -f -- "$part"; exit 1' TERM INT HUP PIPE
"""
_FAIL = f'{{ rm -f -- "$part"; exit {FAILED}; }}\n'
_FINISH = f' >"$part" && whole && settle && moved || {_FAIL}[ -z "$new" ] || echo new\n'
# The last process takes the place of the shell. It does not remove the part, and is not ended before it has moved it.
_FINISH_QUICKLY = f""" >"$part" && settle || {_FAIL}[ -z "$new" ] || echo new
trap '' TERM INT HUP PIPE
exec mv -fT -- "$part" "./$name" 2>/dev/null
"""
# The first line tells of most files that they are not of this kind.
_UNLESS_CRLF = f"""\
crlf() {{
  [ -s "./$name" ] || return 1
  if [ -n "${{BASH_VERSION-}}" ]; then
    IFS= read -r -n {SMALL} line <"./$name"
    case $line in *'\r') ;; *) [ "${{#line}}" -eq {SMALL} ] || return 1 ;; esac
  fi
  ends=$(grep -a -c '\r$' "./$name") && [ "$(wc -c <"./$name")" -le LIMIT ] && [ "$ends" -eq "$(wc -l <"./$name")" ]
}}
! crlf || exit {IS_CRLF}
"""
_SAME_TEXT = f"""\
IFS= read -r -d '' -n SIZE now <"./$name"
[ "$now" = TEXT ] || exit {CHANGED}
"""
_SAME_DIGEST = f"""\
if command -v sha256sum >/dev/null; then [ "$(sha256sum <"./$name")" = "DIGEST  -" ] || exit {CHANGED}
else [ "$(($(wc -c <"./$name")))" -eq SIZE ] || exit {CHANGED}
fi
"""
# The shell's own `read` takes a small file without a process. It ends with success at a NUL or at the limit, and does
# not set the variable where reading fails.
_PRINT = """\
unset -v text
if [ -n "${BASH_VERSION-}" ] && [ -s "$path" ]; then
  LC_ALL=C
  if IFS= read -r -d '' -n LIMIT text <"$path"; then ENOUGH :
  elif [ -n "${text-}" ]; then printf %s "$text"; exit
  fi
fi
exec """
_READ = """\
if [ ! -f "$path" ]; then
  missing
  [ ! -e "$path" ] || [ -d "$path" ] || echo "it is not a regular file" >&2
  exit 1
fi
[ -r "$path" ] || exit 1
"""


def resolving(path: str) -> str:
    """Return what sets $path, to an absolute one without a slash at its end."""
    return exactly(path.rstrip("/") or "/")


def exactly(path: str) -> str:
    """Return what sets $path, to an absolute one."""
    return f"path={shlex.quote(path)}\n{_ABSOLUTE}"


def explaining(path: str, purpose: str) -> str:
    """Return what ends with the error number of what is in the way of something, and succeeds if nothing is."""
    return f"{exactly(path)}{EXPLAIN}explain {purpose}; exit 0"


def placing(
    path: str,
    command: str,
    mode: str = "",
    size: int | None = None,
    terms: WriteTerms = ANY,
    part: str = "",
    *,
    quickly: bool = False,
) -> str:
    """Return what puts what a command prints in the place of a file, in one step, and prints `new` if none was there.

    It ends with one of the codes `REFUSED`, `CHANGED`, `IS_CRLF` and `EXISTS` if the terms do not hold.

    Args:
        path: The file.
        command: Prints its contents. It follows on other text.
        mode: Its permission bits, in octal; empty keeps those that are there, or takes the usual ones.
        size: Its bytes, if they are known; with fewer, what is there stays as it is.
        terms: Conditions.
        part: The last part of the name of the file beside it that is written first; empty is a new one.
        quickly: Whether to save a process. The file beside it is left if the last step fails, with a code that is not
            `FAILED`: then the same is to be done again, and not quickly.
    """
    named = f"unique={part or os.urandom(6).hex()}"
    head = f"mode={mode and mode.zfill(3)} size={'' if size is None else size} {named}\n"
    finish = _FINISH_QUICKLY if quickly else _FINISH
    return f"{head}{_finding(path, terms)}{_PUT}{command}{finish}"


def checking(path: str, terms: WriteTerms) -> str:
    """Return what ends with one of the codes of `placing` if the terms do not hold, and changes nothing."""
    return _finding(path, terms).replace(_MAKE, f'[ -z "$rest" ] || exit 0\n{_MAKE}')


def _entering(path: str, guard: WriteGuard | None) -> str:
    """Return what goes into the directory of a path, which is made, and sets $name to the last part of the path."""
    judge, lost = "judge() { :; }\njudge_links() { :; }\n", f"exit {FAILED}"
    if guard:
        judge, lost = _judging(guard), "refuse lost"
    return f"LC_ALL=C\n{resolving(path)}{judge}{_ENTER.replace('UNPLACED', lost)}"


@functools.lru_cache(maxsize=8)
def _judging(guard: WriteGuard) -> str:
    """Return what defines `judge` and `judge_links`, which end a text if a file must not be written.

    The file is given by names below the directory that the shell is in. The second is for what has several names.
    """
    above = {folder for path in guard.denied for folder in PurePosixPath(path).parents if folder.name not in ("", "~")}
    rooted = (
        _ROOTED.replace("ROOT", _word(guard.safe_root) if guard.safe_root != "/" else "/") if guard.safe_root else ":"
    )
    return (
        _JUDGE.replace("ROOTED", rooted)
        .replace("ABOVE", " ".join(map(_word, sorted(map(str, above)))))
        .replace("DENIED", " ".join(map(_word, guard.denied)))
    )


def _finding(path: str, terms: WriteTerms) -> str:
    """Return what follows on links as well, sets $new unless there is a file, and ends if the terms do not hold."""
    text = _entering(path, terms.guard) + (_VACANT if terms.must_be_new else "") + _FOLLOW
    if terms.unless_crlf:
        text += _UNLESS_CRLF.replace("LIMIT", str(CRLF_LIMIT))
    if terms.expected is not None:
        text += f'[ -z "$new" ] || exit {CHANGED}\n{_comparing(terms.expected)}'
    return text


def _comparing(expected: bytes) -> str:
    """Return what ends with `CHANGED` unless `./$name` holds these bytes."""
    import hashlib  # which few files need

    digest = _SAME_DIGEST.replace("DIGEST", hashlib.sha256(expected).hexdigest()).replace("SIZE", str(len(expected)))
    text = as_text(expected)
    if text is None:
        return digest
    same = _SAME_TEXT.replace("SIZE", str(len(expected) + 1)).replace("TEXT", shlex.quote(text))
    return f'if [ -n "${{BASH_VERSION-}}" ]; then\n{same}else\n{digest}fi\n'


def as_text(data: bytes) -> str | None:
    """Return bytes as they can stand in shell text; None if they are many, hold NUL bytes or are not UTF-8."""
    if len(data) > SMALL or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _word(path: str) -> str:
    """Return a path as a word of the text, without a slash at its end. $home is where the home directory really is."""
    if path == "~" or path.startswith("~/"):
        return '"$home"' + (shlex.quote(path[1:]) if path[1:] else "")
    return shlex.quote(path.rstrip("/"))


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


def moving(source: str, target: str, guard: WriteGuard) -> str:
    """Return what gives a file another path, and ends with one of the codes of `placing` if it may not have that."""
    here = f"{resolving(source)}source=$path\n"
    return f'{here}{_entering(target, guard)}{_VACANT}mv -fT -- "$source" "./$name" 2>/dev/null || ' + (
        '{ [ ! -d "./$name" ] && mv -f -- "$source" "./$name"; }\n'
    )


def deleting(path: str, guard: WriteGuard) -> str:
    """Return what removes a file if it is there, and ends with one of the codes of `placing` if it may not."""
    entering = _entering(path, guard).replace(_MAKE, f'[ -z "$rest" ] || exit 0\n{_MAKE}')
    return f'{entering}rm -f -- "./$name"\n'


def saying(
    path: str, text: str, mode: str = "", terms: WriteTerms = ANY, part: str = "", *, quickly: bool = False
) -> str:
    """Return what puts a text in the place of a file; `NOT_HERE` where `printf` is a program, which shows its words.

    The arguments are those of `placing`.
    """
    builtin = '[ -n "${BASH_VERSION-}" ] || case $(command -V printf) in *builtin*) ;; *) exit '
    put = placing(path, f"printf %s {shlex.quote(text)}", mode, terms=terms, part=part, quickly=quickly)
    return f"{builtin}{NOT_HERE} ;; esac\n{put}"


def decoding(path: str, text: str, mode: str = "", terms: WriteTerms = ANY) -> str:
    """Return what puts bytes, given as base64, in the place of a file; `NOT_HERE` where nothing there decodes it."""
    check = f"command -v base64 >/dev/null || exit {NOT_HERE}\n"
    return check + placing(path, f"echo {text} | base64 -d", mode, terms=terms)


def reading(path: str, command: str) -> str:
    """Return what runs a command on a regular file, whose path it finds in $path. It fails if the command does."""
    return f"{exactly(path)}{_MISSING}{_READ}{command}\n"


def printing(path: str, limit: int | None = None) -> str:
    """Return what prints a regular file, or at most so many of its bytes."""
    program = 'cat -- "$path"' if limit is None else f'head -c {limit} -- "$path"'
    most = SMALL if limit is None else min(limit, SMALL)
    if not most:
        return reading(path, ":")
    enough = f'[ "${{#text}}" -lt {limit} ] || {{ printf %s "$text"; exit; }};' if most == limit else ""
    return reading(path, _PRINT.replace("LIMIT", str(most)).replace("ENOUGH", enough) + program)


def describing(path: str) -> str:
    """Return what prints a regular file behind a line of its permission bits, in octal, and its size, if it can."""
    return reading(path, 'echo "$(stat -Lc \'%a %s\' -- "$path" 2>/dev/null)"; exec cat -- "$path"')


# Entries of directories.

NO_STAT = 47
"""Exit code by which the texts below say that the target lacks what lists a directory."""
THE_ROOT = 48
"""Exit code by which they say that it is all of the target's files that would be removed."""
FIELDS = "%f %s %Y %u %g"
"""What `stat` is asked for: kind and permissions in hexadecimal, bytes, time of change, user and group."""

# One `stat` takes many names, and its %N tells what a link points to, so that there is no process for each.
_LIST = """\
cd -P -- "$path" && [ -r . ] || exit 1
stat -c %f . >/dev/null && command -v find >/dev/null || exit {no_stat}
export LC_ALL=C QUOTING_STYLE=literal
find . ! -name . -prune -exec stat -c '{mark} {fields} %n//%N' -- {{}} + 2>/dev/null
:
"""
_MKDIR = """\
{parents}mkdir {mode}-- "$path" || {kept}exit 1
"""
# It is asked once more what it is behind every link on the way, as `..` and the like lead to the root, too.
_REMOVE = """\
missing
[ -L "$path" ] || [ -e "$path" ] || exit 1
if [ -L "$path" ] || [ ! -d "$path" ]; then {slash}rm -f -- "$path" || exit 1
else
  [ "$(cd -P -- "$path" && pwd -P)" != / ] || exit {the_root}
  {directory}
fi
"""


def statting(path: str, *, follow: bool) -> str:
    """Return what prints the `FIELDS` of what is at a path, and on the lines below what it points to, if it is a link.

    Args:
        path: The path.
        follow: Whether it is asked of what a link points to instead.
    """
    stat = f'missing\nstat {"-L " if follow else ""}-c "{FIELDS}" -- "$path" || exit 1\n'
    link = "" if follow else 'if [ -L "$path" ]; then readlink -- "$path"; fi\n'
    return f"{exactly(path)}{_MISSING}{stat}{link}"


def existing(path: str) -> str:
    """Return what succeeds if there is something at a path, and may end with the error number why not."""
    return f'{exactly(path)}{_MISSING}[ -e "$path" ] || {{ missing; exit 1; }}\n'


def listing_entries(path: str, mark: str) -> str:
    """Return what prints, for each entry of a directory, a mark, the `FIELDS`, `./` and the name, `//`, and its `%N`.

    Args:
        path: The directory.
        mark: A word that no name and no link has in it.
    """
    return f"{exactly(path)}{_LIST.format(mark=mark, fields=FIELDS, no_stat=NO_STAT)}"


def making(path: str, *, parents: bool, exist_ok: bool, mode: int | None) -> str:
    """Return what makes a directory, see `TargetFiles.mkdir`."""
    text = _MKDIR.format(
        parents='[ -d "${path%/*}/" ] || mkdir -p -- "${path%/*}/" || exit 1\n' if parents else "",
        mode="" if mode is None else f"-m {mode:o} ",
        kept='[ -d "$path" ] || ' if exist_ok else "",
    )
    return f"{resolving(directory_path(path))}{text}"


def directory_path(path: str) -> str:
    """Return the path of a directory without what makes no difference at its end."""
    return re.sub("(/+[.])+/*$", "", path).rstrip("/") or "/"


def removing(path: str, *, recursive: bool) -> str:
    """Return what removes what is at a path, and no more than a link where one is there."""
    text = _REMOVE.format(
        slash=f"{failing(errno.ENOTDIR)}; " if path.endswith("/") else "",
        the_root=THE_ROOT,
        directory='rm -rf -- "$path" || exit 1' if recursive else failing(errno.EISDIR),
    )
    return f"{resolving(path)}{_MISSING}{text}"


# Whole directories, by `tar`.

OWNER = stat.S_IRWXU
"""The permission bits without which a directory's owner can make nothing in it."""
NO_TAR = 46
"""Exit code by which the texts below say that there is no `tar`."""
BATCH = 100
"""Directories to change with one `chmod`."""

# With its options a variable could have it leave out files, or write elsewhere.
_HAS_TAR = f"command -v tar >/dev/null || exit {NO_TAR}\nunset TAR_OPTIONS\n"
# A directory that is there keeps its permissions, as it may be a home, or one that others write to as well.
_GO_IN = """\
made=
if [ ! -d "$path" ]; then mkdir -p -- "$path" && chmod 700 -- "$path" || exit 1; made=1; fi
cd -P -- "$path" || exit 1
"""
# BusyBox writes through a link to a directory as if it were one, and no tar writes into what is not to be written to.
_CLEAR = """\
if [ -z "$made" ]; then
  for d in {folders}; do
    if [ -L "$d" ] || {{ [ -e "$d" ] && [ ! -d "$d" ]; }}; then rm -f -- "$d"
    elif [ -d "$d" ] && ! {{ [ -w "$d" ] && [ -x "$d" ]; }}; then chmod u+rwx -- "$d"
    fi
  done
fi
"""
# But for root, BusyBox gives permissions only to what it makes, and not those that the umask takes away.
_UNPACK = """\
umask 0
tar -xpof - || exit 1
"""
_END_UNPACKING = """\
if [ -n "$made" ]; then touch -d @{time} . 2>/dev/null; chmod {mode:o} .; fi
"""
_GO_TO = """\
cd -P -- "$path" && [ -r . ] || exit 1
"""
# Only of GNU tar it is known that it can, and takes the names as they are.
_LEAVE_OUT = """\
case $(tar --version 2>/dev/null) in *'GNU tar'*) set -- --anchored --no-wildcards --exclude-from=- ;; esac
printf '%s\\n' {names} | """
# A name that goes over two lines is left out of the list, so that the file is taken for a new one.
_LIST_FILES = """\
cd -P -- "$path" 2>/dev/null && LC_ALL=C find . -type f ! -path '*
*' -exec stat -c "%s %Y %n" {} + 2>/dev/null
:
"""


def unpacking(path: str, folders: Mapping[str, int], mode: int, time: int) -> str:
    """Return what unpacks its input into a directory; owners are not taken over.

    Args:
        path: The directory, which is made.
        folders: The names, relative to it, of all directories that come, each behind the one it is in, and their
            permission bits.
        mode: The permission bits that it gets itself if it is made.
        time: The time of change that it then gets, in seconds.
    """
    clear = _CLEAR.format(folders=_words(folders))
    finish = "".join(_closing(folders)) + _END_UNPACKING.format(mode=mode, time=time)
    return f"{_HAS_TAR}{resolving(path)}{_GO_IN}{clear}{_UNPACK}{finish}"


def _closing(folders: Mapping[str, int]) -> Iterator[str]:
    """Return what takes permissions from directories that their owner is not to write to, those further down first."""
    closed = [(name, bits) for name, bits in folders.items() if bits & OWNER != OWNER]
    for bits, group in itertools.groupby(reversed(closed), lambda folder: folder[1]):
        names = [name for name, _ in group]
        for begin in range(0, len(names), BATCH):
            yield f"chmod {bits:o} -- {_words(names[begin : begin + BATCH])} || exit\n"


def _words(names: Iterable[str]) -> str:
    return " ".join(shlex.quote(f"./{name}") for name in names)


def packing(path: str, unwanted: Collection[str]) -> str:
    """Return what packs a directory.

    Args:
        path: The directory.
        unwanted: Names, relative to it, of files that may be left out.
    """
    leave_out = _LEAVE_OUT.format(names=_words(unwanted)) if unwanted else ""
    return f'{_HAS_TAR}{exactly(path)}{_GO_TO}set --\n{leave_out}tar "$@" -cf - . || exit 1'


def listing(path: str) -> str:
    """Return what prints size, time of change in seconds, and name of each regular file of a directory, if it can."""
    return f"{resolving(path)}{_LIST_FILES}"


def looking(path: str, names: Sequence[str]) -> str:
    """Return what prints the time there in seconds, then size, time of change and name of files of a directory.

    Args:
        path: The directory.
        names: The files, relative to it; those that are not there are left out.
    """
    batches = (_words(names[begin : begin + BATCH]) for begin in range(0, len(names), BATCH))
    stats = "".join(f'stat -c "%s %Y %n" -- {batch} 2>/dev/null\n' for batch in batches)
    return f'{resolving(path)}cd -P -- "$path" 2>/dev/null || exit 0\ndate +%s\n{stats}:'


def dropping(path: str, names: Iterable[str]) -> str:
    """Return what removes files of a directory, which are named relative to it."""
    return f'{resolving(path)}cd -P -- "$path" && rm -f -- {_words(names)}'

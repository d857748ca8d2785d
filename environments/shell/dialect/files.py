"""Texts that stat, move, make and remove files and directories, for any POSIX shell.

Causes of errors are found without parsing messages, which may be in any language. A failed text is followed by another,
`explaining`. The second text tests the path and its parents with the shell's own tests, each a system call, and ends
with an exit code for the system's error number.
"""

from __future__ import annotations

import errno
import re
import shlex

_BASE = 60
"""Offset of exit codes above the error numbers."""
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
"""Links followed by Linux in one path."""
LONGEST_PATH = 4096
"""Bytes from which on Linux rejects a path."""
_LONGEST_NAME = 255
"""Bytes of a file's name on nearly every file system."""


def error_number(exit_code: int) -> int:
    """Return the error number of an exit code of `explain`, 0 for any other."""
    return exit_code - _BASE if exit_code - _BASE in _FOUND else 0


def failing(number: int) -> str:
    """Return the command to end a text with an error number."""
    return f"exit {_BASE + number}"


# Walks down $path, through links that the shell cannot follow, as their target is missing or unreachable. Leaves the
# path in $entry, and its directory in $folder. Search permission is tested with the name `.`, as BusyBox has rules of
# its own for root. $1: the purpose.
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
# Each explains the failure of one operation, once the parents are fine. `look` follows a link, `link` does not; `read`
# and `write` take a file, `list`, `pack` and `fill` a directory.
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
# Their tests. A file system mounted read-only is no matter of permissions.
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
"""Functions for `explaining`. Set before the text: $path, absolute."""

# Files.

SMALL = 16 * 1024
"""Bytes up to which a command carries a file's contents, or the shell itself reads a file."""
# A relative path starts at the command's directory, the session's. A path that is too long is refused here, as some
# programs follow a part of it. `missing` ends a text at once if there is no entry at $path and its name is the only
# possible reason. The shell's own `read` loads a small file without a process. `read` succeeds at a NUL or at the
# limit, and does not set the variable if reading fails.
FUNCTIONS = f"""\
absolute() {{
  case $path in '~') path=$HOME ;; '~/'*) path=$HOME/${{path#'~/'}} ;; esac
  case $path in /*) ;; *) path=$PWD/$path ;; esac
  [ "${{#path}}" -lt 1024 ] || [ "$(printf %s "$path" | wc -c)" -lt {LONGEST_PATH} ] || {failing(errno.ENAMETOOLONG)}
}}
missing() {{
  name=${{path##*/}}
  [ "${{#name}}" -gt 63 ] || [ -e "$path" ] || [ -L "$path" ] || [ ! -e "${{path%/*}}/." ] || {failing(errno.ENOENT)}
}}
readable() {{
  if [ ! -f "$path" ]; then
    missing
    [ ! -e "$path" ] || [ -d "$path" ] || echo "it is not a regular file" >&2
    exit 1
  fi
  [ -r "$path" ] || exit 1
}}
show() {{
  readable
  if [ -n "${{BASH_VERSION-}}" ] && [ -s "$path" ]; then
    LC_ALL=C
    unset -v text
    if IFS= read -r -d '' -n "$1" text <"$path"
    then [ "${{#text}}" -lt "${{2:-{SMALL + 1}}}" ] || {{ printf %s "$text"; exit; }}
    elif [ -n "${{text-}}" ]; then printf %s "$text"; exit
    fi
  fi
  if [ -n "${{2-}}" ]; then exec head -c "$2" -- "$path"; fi
  exec cat -- "$path"
}}
"""
"""Functions of the texts below, see `ShellRequest.functions`."""


def resolving(path: str) -> str:
    """Return text to set $path to an absolute path without a final slash."""
    return exactly(path.rstrip("/") or "/")


def exactly(path: str) -> str:
    """Return text to set $path to an absolute path."""
    return f"path={shlex.quote(path)}; absolute\n"


def explaining(path: str, purpose: str) -> str:
    """Return text that ends with the error number of an obstacle, and succeeds without one.

    It needs `EXPLAIN` too.
    """
    return f"{exactly(path)}explain {purpose}; exit 0"


def reading(path: str, command: str) -> str:
    """Return text to run a command on a regular file, given in $path. It fails if the command fails."""
    return f"{exactly(path)}readable\n{command}\n"


def printing(path: str, limit: int | None = None) -> str:
    """Return text to print a regular file, or at most so many of its bytes."""
    if limit == 0:
        return reading(path, ":")
    most = f"{SMALL}" if limit is None else f"{min(limit, SMALL)} {limit}"
    return f"{exactly(path)}show {most}\n"


def describing(path: str) -> str:
    """Return text to print a regular file after a line with its octal permission bits and size, if available."""
    return reading(path, 'echo "$(stat -Lc \'%a %s\' -- "$path" 2>/dev/null)"; exec cat -- "$path"')


# Entries of directories.

NO_STAT = 47
"""Exit code for a target without the programs to list a directory."""
THE_ROOT = 48
"""Exit code for the attempt to remove the root directory."""
FIELDS = "%f %s %Y %u %g"
"""The fields of `stat`: kind and permissions in hexadecimal, bytes, modification time, user and group."""

# One `stat` takes many names, and its %N prints a link's target, so that no entry needs a process of its own.
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
# The resolved directory is compared too, as `..` and links also lead to the root.
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
    """Return text to print the `FIELDS` of a path and, on the lines below, a link's target.

    Args:
        path: The path.
        follow: True to describe a link's target instead.
    """
    stat = f'missing\nstat {"-L " if follow else ""}-c "{FIELDS}" -- "$path" || exit 1\n'
    link = "" if follow else 'if [ -L "$path" ]; then readlink -- "$path"; fi\n'
    return f"{exactly(path)}{stat}{link}"


def existing(path: str) -> str:
    """Return text that succeeds if a path exists. It may end with an error number."""
    return f'{exactly(path)}[ -e "$path" ] || {{ missing; exit 1; }}\n'


def listing_entries(path: str, mark: str) -> str:
    """Return text to print, for each entry of a directory, a mark, the `FIELDS`, `./` and the name, `//`, and `%N`.

    Args:
        path: The directory.
        mark: A word absent from all names and links.
    """
    return f"{exactly(path)}{_LIST.format(mark=mark, fields=FIELDS, no_stat=NO_STAT)}"


def making(path: str, *, parents: bool, exist_ok: bool, mode: int | None) -> str:
    """Return text to make a directory, see `TargetFiles.mkdir`."""
    text = _MKDIR.format(
        parents='[ -d "${path%/*}/" ] || mkdir -p -- "${path%/*}/" || exit 1\n' if parents else "",
        mode="" if mode is None else f"-m {mode:o} ",
        kept='[ -d "$path" ] || ' if exist_ok else "",
    )
    return f"{resolving(directory_path(path))}{text}"


def directory_path(path: str) -> str:
    """Return the path of a directory without a meaningless ending such as `/.`."""
    return re.sub("(/+[.])+/*$", "", path).rstrip("/") or "/"


def removing(path: str, *, recursive: bool) -> str:
    """Return text to remove the entry at a path; of a link, the link alone."""
    text = _REMOVE.format(
        slash=f"{failing(errno.ENOTDIR)}; " if path.endswith("/") else "",
        the_root=THE_ROOT,
        directory='rm -rf -- "$path" || exit 1' if recursive else failing(errno.EISDIR),
    )
    return f"{resolving(path)}{text}"

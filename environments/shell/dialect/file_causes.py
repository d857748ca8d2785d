"""Why something could not be done to a file, found out without reading what a program says, which is in any language.

The text is a function, `explain`, that every text about files brings along and calls only when something has failed. It
looks at a path and at what is on the way there with the shell's own tests, each of which is a system call, and ends the
command with an exit code that stands for the system's error number.
"""

from __future__ import annotations

import errno

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

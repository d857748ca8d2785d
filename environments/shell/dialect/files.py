"""What looks at, moves, makes and removes files and directories, in words that every POSIX shell knows.

Why something could not be done is found out without reading what a program says, which is in any language. Every text
here brings along a function, `explain`, and calls it only when something has failed. It looks at a path and at what is
on the way there with the shell's own tests, each of which is a system call, and ends the command with an exit code that
stands for the system's error number.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import shlex
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

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

NO_BASE64 = 45
"""Exit code by which the texts below say that the target cannot decode base64."""
BLOCK = 1024 * 1024
"""Bytes that are moved at a time. `head` moves 8 KB, or in BusyBox one."""

# Set in front of each: $path. A relative path is taken from where the command runs, the session's directory. One that
# is too long is refused here, as some programs go a part of the way.
_ABSOLUTE = f"""\
case $path in '~') path=$HOME ;; '~/'*) path=$HOME/${{path#'~/'}} ;; esac
case $path in /*) ;; *) path=$PWD/$path ;; esac
[ "${{#path}}" -lt 1024 ] || [ "$(printf %s "$path" | wc -c)" -lt {LONGEST_PATH} ] || {failing(errno.ENAMETOOLONG)}
"""
# A link is followed, so that what it points at is replaced: from the directory that it is in, whereas `readlink -f` of
# BusyBox takes what is not there yet from where it runs. The permissions of a file that is there are kept; what gets
# them, or others than the usual ones, is private until it is whole. Permissions have three digits, the last three. The
# end of a stream may be that of the link it comes over, so that its bytes are counted.
_PLACE = """\
no_place() { explain write; exit 1; }
whole() {
  [ -z "$size" ] || [ "$(($(stat -c %s -- "$part" 2>/dev/null || wc -c <"$part")))" -eq "$size" ] || {
    echo "only a part of it has come" >&2
    false
  }
}
[ ! -d "$path" ] || no_place
links=0
while [ -L "$path" ]; do
  [ "$links" -lt MOST_LINKS ] || no_place
  links=$((links + 1))
  to=$(readlink -- "$path" && echo .) || no_place
  to=${to%??} folder=${path%/*}
  path=${to%"${to##*[!/]}"}
  case $path in /*) ;; *) path=$folder/$path ;; esac
done
[ -d "${path%/*}/" ] || mkdir -p -- "${path%/*}/" || no_place
if [ -e "$path" ]; then
  if [ ! -f "$path" ]; then echo "it is not a regular file" >&2; no_place; fi
  [ -w "$path" ] || [ -O "$path" ] || no_place
fi
part=${path%/*}/.hermes-$unique
trap 'trap "" TERM INT HUP PIPE; rm -f -- "$part"; exit 1' TERM INT HUP PIPE
if [ -n "$mode" ] || [ -e "$path" ]; then (umask 077; true >"$part"); else true >"$part"; fi || no_place
settle() {
  if [ -z "$mode" ] && [ -e "$path" ]; then
    chown "$(stat -c %u:%g -- "$path")" "$part" 2>/dev/null
    mode=$(stat -c %a -- "$path") && mode=00$mode && mode=${mode#"${mode%???}"} || mode=
  fi
  [ -z "$mode" ] || chmod "$mode" "$part"
}
""".replace("MOST_LINKS", str(MOST_LINKS))
_FINISH = ' >"$part" && whole && settle && mv -f -- "$part" "$path" || { rm -f -- "$part"; no_place; }'
_READ = """\
if [ ! -f "$path" ]; then explain read; echo "it is not a regular file" >&2; exit 1; fi
"""
_UNREAD = " || { explain read; exit 1; }"


def resolving(path: str) -> str:
    """Return what sets $path, to an absolute one without a slash at its end."""
    return exactly(path.rstrip("/") or "/")


def exactly(path: str) -> str:
    """Return what sets $path, to an absolute one."""
    return f"path={shlex.quote(path)}\n{_ABSOLUTE}"


def explaining(path: str, purpose: str) -> str:
    """Return what ends with the error number of what is in the way of something, and succeeds if nothing is."""
    return f"{exactly(path)}{EXPLAIN}explain {purpose}; exit 0"


def placing(path: str, command: str, mode: str = "", size: int | None = None) -> str:
    """Return what puts what a command prints in the place of a file, in one step.

    Args:
        path: The file.
        command: Prints its contents. It follows on other text.
        mode: Its permission bits, in octal; empty keeps those that are there, or takes the usual ones.
        size: Its bytes, if they are known; with fewer, what is there stays as it is.
    """
    head = f"mode={mode} size={'' if size is None else size} unique={os.urandom(6).hex()}\n{resolving(path)}"
    return f"{head}{EXPLAIN}{_PLACE}{command}{_FINISH}"


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


def decoding(path: str, text: str, mode: str = "") -> str:
    """Return what puts bytes, given as base64, in the place of a file; `NO_BASE64` where nothing there decodes it."""
    check = f"command -v base64 >/dev/null || exit {NO_BASE64}\n"
    return check + placing(path, f"echo {text} | base64 -d", mode)


def reading(path: str, command: str) -> str:
    """Return what runs a command on a regular file, whose path it finds in $path."""
    return f"{exactly(path)}{EXPLAIN}{_READ}{{\n{command}\n}}{_UNREAD}"


def printing(path: str, limit: int | None = None) -> str:
    """Return what prints a regular file, or at most so many of its bytes."""
    return reading(path, 'cat -- "$path"' if limit is None else f'head -c {limit} -- "$path"')


def describing(path: str) -> str:
    """Return what prints a regular file behind a line of its permission bits, in octal, and its size, if it can."""
    return reading(path, 'echo "$(stat -Lc \'%a %s\' -- "$path" 2>/dev/null)"; cat -- "$path"')


# Entries of directories.

NO_STAT = 47
"""Exit code by which the texts below say that the target lacks what lists a directory."""
THE_ROOT = 48
"""Exit code by which they say that it is all of the target's files that would be removed."""
FIELDS = "%f %s %Y %u %g"
"""What `stat` is asked for: kind and permissions in hexadecimal, bytes, time of change, user and group."""

# One `stat` takes many names, and its %N tells what a link points to, so that there is no process for each.
_LIST = """\
cd -P -- "$path" && [ -r . ] || {{ explain list; exit 1; }}
stat -c %f . >/dev/null && command -v find >/dev/null || exit {no_stat}
export LC_ALL=C QUOTING_STYLE=literal
find . ! -name . -prune -exec stat -c '{mark} {fields} %n//%N' -- {{}} + 2>/dev/null
:
"""
_MKDIR = """\
not_made() {{ explain {purpose}; exit 1; }}
{parents}mkdir {mode}-- "$path" || {kept}not_made
"""
# It is asked once more what it is behind every link on the way, as `..` and the like lead to the root, too.
_REMOVE = """\
kept() {{ explain {purpose}; exit 1; }}
[ -L "$path" ] || [ -e "$path" ] || kept
if [ -L "$path" ] || [ ! -d "$path" ]; then {slash}rm -f -- "$path" || kept
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
    purpose, option = ("look", "-L ") if follow else ("link", "")
    stat = f'stat {option}-c "{FIELDS}" -- "$path" || {{ explain {purpose}; exit 1; }}\n'
    link = "" if follow else 'if [ -L "$path" ]; then readlink -- "$path"; fi\n'
    return f"{exactly(path)}{EXPLAIN}{stat}{link}"


def existing(path: str) -> str:
    """Return what succeeds if there is something at a path, and otherwise ends with the error number why not."""
    return f'{exactly(path)}{EXPLAIN}[ -e "$path" ] || {{ explain look; exit 1; }}\n'


def listing_entries(path: str, mark: str) -> str:
    """Return what prints, for each entry of a directory, a mark, the `FIELDS`, `./` and the name, `//`, and its `%N`.

    Args:
        path: The directory.
        mark: A word that no name and no link has in it.
    """
    return f"{exactly(path)}{EXPLAIN}{_LIST.format(mark=mark, fields=FIELDS, no_stat=NO_STAT)}"


def making(path: str, *, parents: bool, exist_ok: bool, mode: int | None) -> str:
    """Return what makes a directory, see `TargetFiles.mkdir`. It has the same name with `/.` behind it."""
    text = _MKDIR.format(
        purpose="mkdirs" if parents else "mkdir",
        parents='[ -d "${path%/*}/" ] || mkdir -p -- "${path%/*}/" || not_made\n' if parents else "",
        mode="" if mode is None else f"-m {mode:o} ",
        kept='[ -d "$path" ] || ' if exist_ok else "",
    )
    return f"{resolving(re.sub('(/+[.])+/*$', '', path) or '/')}{EXPLAIN}{text}"


def removing(path: str, *, recursive: bool) -> str:
    """Return what removes what is at a path, and no more than a link where one is there."""
    text = _REMOVE.format(
        purpose="rmtree" if recursive else "remove",
        slash=f"{failing(errno.ENOTDIR)}; " if path.endswith("/") else "",
        the_root=THE_ROOT,
        directory='rm -rf -- "$path" || kept' if recursive else failing(errno.EISDIR),
    )
    return f"{resolving(path)}{EXPLAIN}{text}"


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
_ENTER = """\
made=
unfilled() { explain fill; exit 1; }
if [ ! -d "$path" ]; then mkdir -p -- "$path" && chmod 700 -- "$path" || unfilled; made=1; fi
cd -P -- "$path" || unfilled
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
tar -xpof - || unfilled
"""
_END_UNPACKING = """\
if [ -n "$made" ]; then touch -d @{time} . 2>/dev/null; chmod {mode:o} .; fi
"""
_GO_TO = """\
unread() { explain pack; exit 1; }
cd -P -- "$path" && [ -r . ] || unread
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
    return f"{_HAS_TAR}{resolving(path)}{EXPLAIN}{_ENTER}{clear}{_UNPACK}{finish}"


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
    return f'{_HAS_TAR}{exactly(path)}{EXPLAIN}{_GO_TO}set --\n{leave_out}tar "$@" -cf - . || unread'


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

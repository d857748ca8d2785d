"""What moves files, in words that every POSIX shell knows."""

from __future__ import annotations

import errno
import os
import shlex

from environments.shell.dialect.file_causes import EXPLAIN, LONGEST_PATH, MOST_LINKS, failing

NO_BASE64 = 45
"""Exit code by which they say that the target cannot decode."""

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
  [ -z "$size" ] || [ "$(($(wc -c <"$part")))" -eq "$size" ] || { echo "only a part of it has come" >&2; false; }
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
trap 'trap "" TERM INT HUP; rm -f -- "$part"; exit 1' TERM INT HUP
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


def decoding(path: str, text: str, mode: str = "") -> str:
    """Return what puts bytes, given as base64, in the place of a file; `NO_BASE64` where nothing there decodes it."""
    check = f"command -v base64 >/dev/null || exit {NO_BASE64}\n"
    return check + placing(path, f"echo {text} | base64 -d", mode)


def reading(path: str, command: str) -> str:
    """Return what runs a command on a regular file, whose path it finds in $path."""
    return f"{exactly(path)}{EXPLAIN}{_READ}{{\n{command}\n}}{_UNREAD}"

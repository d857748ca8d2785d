"""What moves files, in words that every POSIX shell knows."""

from __future__ import annotations

import os
import shlex

NO_SUCH_FILE = 44
"""Exit code by which the texts below say that a file is missing."""
NO_BASE64 = 45
"""Exit code by which they say that the target cannot decode."""

# Set in front of each: $path. A relative path is taken from where the command runs, the session's directory.
_ABSOLUTE = """\
case $path in '~') path=$HOME ;; '~/'*) path=$HOME/${path#'~/'} ;; esac
case $path in /*) ;; *) path=$PWD/$path ;; esac
"""
# What is there may be out of reach.
MISSING = f"""\
if [ ! -e "$path" ]; then
  why=$(LC_ALL=C ls -dL -- "$path" 2>&1 >/dev/null)
  case $why in ''|*'No such file or directory'*) exit {NO_SUCH_FILE} ;; esac
  echo "$why" >&2
  exit 1
fi
"""
"""Text that ends the command if there is nothing at $path."""
# A link is followed, so that what it points at is replaced. The permissions of a file that is there are kept; what gets
# them, or others than the usual ones, is private until it is whole. Permissions have three digits, the last three.
_PLACE = """\
if [ -L "$path" ]; then path=$(readlink -f -- "$path") || { echo "its link leads nowhere" >&2; exit 1; }; fi
[ -d "${path%/*}/" ] || mkdir -p -- "${path%/*}/" || exit 1
if [ -d "$path" ]; then echo "it is a directory" >&2; exit 1; fi
if [ -e "$path" ]; then
  if [ ! -f "$path" ]; then echo "it is not a regular file" >&2; exit 1; fi
  if [ ! -w "$path" ] && [ ! -O "$path" ]; then echo "Permission denied: it is another user's" >&2; exit 1; fi
fi
part=${path%/*}/.hermes-$unique
trap 'rm -f -- "$part"; exit 1' TERM INT HUP
if [ -n "$mode" ] || [ -e "$path" ]; then (umask 077; : >"$part") || exit 1; else : >"$part" || exit 1; fi
settle() {
  if [ -z "$mode" ] && [ -e "$path" ]; then
    chown "$(stat -c %u:%g -- "$path")" "$part" 2>/dev/null
    mode=$(stat -c %a -- "$path") && mode=00$mode && mode=${mode#"${mode%???}"} || mode=
  fi
  [ -z "$mode" ] || chmod "$mode" "$part"
}
"""
_FINISH = ' >"$part" && settle && mv -f -- "$part" "$path" || { rm -f -- "$part"; exit 1; }'
_READ = f"""\
{MISSING}if [ -d "$path" ]; then echo "it is a directory" >&2; exit 1; fi
if [ ! -f "$path" ]; then echo "it is not a regular file" >&2; exit 1; fi
"""


def resolving(path: str) -> str:
    """Return what sets $path, to an absolute one without a slash at its end."""
    return f"path={shlex.quote(path.rstrip('/') or '/')}\n{_ABSOLUTE}"


def _head(path: str, mode: str = "") -> str:
    return f"mode={mode} unique={os.urandom(6).hex()}\n{resolving(path)}"


def placing(path: str, command: str, mode: str = "") -> str:
    """Return what puts what a command prints in the place of a file, in one step.

    Args:
        path: The file.
        command: Prints its contents. It follows on other text.
        mode: Its permission bits, in octal; empty keeps those that are there, or takes the usual ones.
    """
    return f"{_head(path, mode)}{_PLACE}{command}{_FINISH}"


def decoding(path: str, text: str, mode: str = "") -> str:
    """Return what puts bytes, given as base64, in the place of a file; `NO_BASE64` where nothing there decodes it."""
    check = f"command -v base64 >/dev/null || exit {NO_BASE64}\n"
    return check + placing(path, f"echo {text} | base64 -d", mode)


def reading(path: str, command: str) -> str:
    """Return what runs a command on a regular file, whose path it finds in $path."""
    return f"{_head(path)}{_READ}{command}"

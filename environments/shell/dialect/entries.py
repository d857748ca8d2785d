"""What looks at, makes and removes files and directories, in words that every POSIX shell knows."""

from __future__ import annotations

import errno
import re

from environments.shell.dialect.file_causes import EXPLAIN, failing
from environments.shell.dialect.files import exactly, resolving

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
    """Return what makes a directory, see `BaseEnvironment.mkdir`. It has the same name with `/.` behind it."""
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

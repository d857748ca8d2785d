"""Texts that pack, unpack and list whole directories of a target with `tar`."""

from __future__ import annotations

import itertools
import shlex
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from environments.shell.dialect.files import exactly, resolving

OWNER = stat.S_IRWXU
"""The permission bits a directory's owner needs to create files in it."""
NO_TAR = 46
"""Exit code for a target without `tar`."""
BATCH = 100
"""Directories per `chmod`."""

# The variable's options could make tar leave out files, or write elsewhere.
_HAS_TAR = f"command -v tar >/dev/null || exit {NO_TAR}\nunset TAR_OPTIONS\n"
# An existing directory keeps its permissions: it may be a home, or shared with other writers.
_GO_IN = """\
made=
if [ ! -d "$path" ]; then mkdir -p -- "$path" && chmod 700 -- "$path" || exit 1; made=1; fi
cd -P -- "$path" || exit 1
"""
# BusyBox writes through a link to a directory, and no tar writes into a directory without write permission.
_CLEAR = """\
if [ -z "$made" ]; then
  for d in {folders}; do
    if [ -L "$d" ] || {{ [ -e "$d" ] && [ ! -d "$d" ]; }}; then rm -f -- "$d"
    elif [ -d "$d" ] && ! {{ [ -w "$d" ] && [ -x "$d" ]; }}; then chmod u+rwx -- "$d"
    fi
  done
fi
"""
# Unless run by root, BusyBox sets permissions only on new files, and only bits within the umask.
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
# Only GNU tar is known to support this, with literal names.
_LEAVE_OUT = """\
case $(tar --version 2>/dev/null) in *'GNU tar'*) set -- --anchored --no-wildcards --exclude-from=- ;; esac
printf '%s\\n' {names} | """
# A name with a newline is left out of the list, so its file counts as new.
_LIST_FILES = """\
cd -P -- "$path" 2>/dev/null && LC_ALL=C find . -type f ! -path '*
*' -exec stat -c "%s %Y %n" {} + 2>/dev/null
:
"""


def unpacking(path: str, folders: Mapping[str, int], mode: int, time: int) -> str:
    """Return text to unpack its input into a directory, without the owners.

    Args:
        path: The directory, made if missing.
        folders: All directories in the archive: names relative to `path`, parents first, with permission bits.
        mode: The permission bits of `path`, if made.
        time: The modification time of `path`, if made, in seconds.
    """
    clear = _CLEAR.format(folders=_words(folders))
    finish = "".join(_closing(folders)) + _END_UNPACKING.format(mode=mode, time=time)
    return f"{_HAS_TAR}{resolving(path)}{_GO_IN}{clear}{_UNPACK}{finish}"


def _closing(folders: Mapping[str, int]) -> Iterator[str]:
    """Return text to remove owner's permissions from directories, children first."""
    closed = [(name, bits) for name, bits in folders.items() if bits & OWNER != OWNER]
    for bits, group in itertools.groupby(reversed(closed), lambda folder: folder[1]):
        names = [name for name, _ in group]
        for begin in range(0, len(names), BATCH):
            yield f"chmod {bits:o} -- {_words(names[begin : begin + BATCH])} || exit\n"


def _words(names: Iterable[str]) -> str:
    return " ".join(shlex.quote(f"./{name}") for name in names)


def packing(path: str, unwanted: Collection[str]) -> str:
    """Return text to pack a directory.

    Args:
        path: The directory.
        unwanted: Names, relative to it, of files to leave out if possible.
    """
    leave_out = _LEAVE_OUT.format(names=_words(unwanted)) if unwanted else ""
    return f'{_HAS_TAR}{exactly(path)}{_GO_TO}set --\n{leave_out}tar "$@" -cf - . || exit 1'


def listing(path: str) -> str:
    """Return text to print size, modification time in seconds, and name of each regular file of a directory."""
    return f"{resolving(path)}{_LIST_FILES}"


def looking(path: str, names: Sequence[str]) -> str:
    """Return text to print the target's time in seconds, then size, modification time and name of files.

    Args:
        path: The directory.
        names: The files, relative to it; missing files are left out.
    """
    batches = (_words(names[begin : begin + BATCH]) for begin in range(0, len(names), BATCH))
    stats = "".join(f'stat -c "%s %Y %n" -- {batch} 2>/dev/null\n' for batch in batches)
    return f'{resolving(path)}cd -P -- "$path" 2>/dev/null || exit 0\ndate +%s\n{stats}:'


def dropping(path: str, names: Iterable[str]) -> str:
    """Return text to remove files of a directory, named relative to it."""
    return f'{resolving(path)}cd -P -- "$path" && rm -f -- {_words(names)}'

"""Shell text that packs, unpacks and lists whole directories of a target by `tar`."""

from __future__ import annotations

import itertools
import shlex
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from environments.shell.dialect.files import exactly, resolving

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

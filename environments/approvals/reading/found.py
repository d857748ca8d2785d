"""What programs that list files would find, as names that stand for it."""

from __future__ import annotations

from itertools import pairwise

from environments.approvals.command import UNKNOWN, Command
from environments.approvals.options import Options
from environments.approvals.reading.names import names

_NARROWING = frozenset(
    names(
        "-name -iname -path -ipath -wholename -regex -iregex -mtime -mmin -atime -ctime -newer -size -empty "
        "-lname -inum -samefile -amin -cmin -newermt -perm -user -group -links"
    )
)
_DOES = frozenset({"-delete", "-exec", "-execdir", "-print", "-print0"})
_FOUND = "found"
_IN_DIRECTORY = frozenset({"git", "grep", "rg", "fd", "ag"})
_FILTERS = frozenset({"grep", "sort", "head", "tail", "uniq", "tee", "sed", "tr", "cat"})
_MOST_ROOTS = 20


def narrows(command: Command) -> bool:
    """Whether what a `find` does, it does to some files and not to all."""
    texts = command.texts
    if any(one in ("-o", "-or") and other in _DOES for one, other in pairwise(texts)):
        return False
    return not _NARROWING.isdisjoint(texts)


def roots_of(command: Command) -> tuple[str, ...]:
    """Return where a `find` looks."""
    roots = []
    for text in command.texts:
        if text.startswith(("-", "(", "!")) and text not in ("-H", "-L", "-P"):
            break
        if not text.startswith("-"):
            roots.append(text)
    return tuple(roots) or (".",)


def listed(command: Command) -> tuple[str, ...]:
    """Return a name for each place that a command lists files of; none where it is no such command.

    It is the place itself if everything in it is listed.
    """
    if command.name == "find":
        roots = roots_of(command)
        roots = roots if len(roots) <= _MOST_ROOTS else (UNKNOWN,)
        return tuple(f"{root.rstrip('/')}/{_FOUND}" for root in roots) if narrows(command) else roots
    if command.name == "ls":
        places = tuple(word.text for word in Options.of(command.args).operands)[:_MOST_ROOTS] or (".",)
        return tuple(f"{place.rstrip('/')}/*" for place in places)
    if command.name in _FILTERS and command.fed_by:
        return command.fed_by[-1].lists
    return (f"./{_FOUND}",) if command.name in _IN_DIRECTORY else ()

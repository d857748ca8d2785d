"""Removing, moving away and opening up directories with all that is in them."""

from __future__ import annotations

import re

from environments.approvals.command import UNSEEN, Command, Word
from environments.approvals.deeds.rule import Rules, always
from environments.approvals.deeds.targets import wiped, written
from environments.approvals.options import Options
from environments.approvals.reading.found import narrows, roots_of

_HERE = "the whole working directory"
_WRITABLE_BY_ALL = re.compile(r"0*[0-7]?[0-7]{2}[2367]|(?:[ug]*[ao][ugoa]*)?[+=][rx]*w[rwxst]*")
_UNREADABLE = re.compile(r"0+|[0-7]?000|(?:a|ugo)?(?:=|-r?w?x?)")
_SETS_USER = re.compile(r"0*[4-7][0-7]{3}|[ugoa]*\+[rwx]*s[rwxst]*")


def _first(verb: str, words: tuple[Word, ...], command: Command) -> str | None:
    """Say what the first of some directories is that would be lost with all that is in it."""
    lost = next((lost for word in words if (lost := wiped(word, command))), None)
    return f"it {verb} {lost}" if lost and not lost.startswith(UNSEEN) else lost


def _removed(command: Command) -> str | None:
    options = Options.of(command.args)
    if options.has("", "no-preserve-root"):
        return "it removes even /"
    if options.has("rR", "recursive"):
        return _first("removes", options.operands, command)
    whole = tuple(word for word in options.operands if word.glob and word.text.endswith(("*", "?")))
    for word in options.operands:
        if lost := written(word, command):
            return f"it removes {lost}"
    return _first("removes", whole, command)


def _moved(command: Command) -> str | None:
    options = Options.of(command.args, ("-t", "--target-directory", "-S", "--suffix"))
    *sources, target = options.operands or (Word(""),)
    if options.value("-t", "--target-directory"):
        sources, target = list(options.operands), Word("")
    if target.text == "/dev/null":
        return "it moves files to where they are lost (/dev/null)"
    return _first("moves away", tuple(sources), command)


def _found_and_deleted(command: Command) -> str | None:
    if "-delete" not in command.texts:
        return None
    narrowed = narrows(command)
    for root in roots_of(command):
        lost = wiped(Word(root, glob="*" in root), command)
        if lost and not (narrowed and (lost == _HERE or root in ("/tmp", "/var/tmp"))):  # noqa: S108
            return f"it removes what it finds in {lost}"
    return None


def _synchronised(command: Command) -> str | None:
    options = Options.of(command.args)
    if options.has("n", "dry-run"):
        return None
    if any(name.startswith("del") for name in options.names):
        return "it removes what is not in the source (rsync --delete)"
    return "it removes what it copies" if "remove-source-files" in options.names else None


def _owned(command: Command) -> str | None:
    """`chown` and `chgrp`: the first operand is whose it becomes."""
    options = Options.of(command.args)
    recursive = options.has("R", "recursive")
    for word in options.operands[0 if "reference" in " ".join(options.names) else 1 :]:
        lost = _opened(word, command, recursive=recursive)
        if lost:
            return f"it changes who owns {lost}"
    return None


def _permitted(command: Command) -> str | None:
    words = [word for word in command.args if not re.fullmatch(r"-[rwxXst]+", word.text)]
    options = Options.of(words)
    taken = next((word.text for word in command.args if re.fullmatch(r"-[rwxXst]+", word.text)), "")
    mode, files = (taken, options.operands) if taken else (_text(options.operands), options.operands[1:])
    recursive = options.has("R", "recursive")
    for word in files:
        if lost := _opened(word, command, recursive=recursive):
            return f"it changes the permissions of {lost}"
        if recursive and wiped(word, command) and (_WRITABLE_BY_ALL.fullmatch(mode) or _UNREADABLE.fullmatch(mode)):
            return "it changes the permissions of the whole working directory for everyone"
        if _SETS_USER.fullmatch(mode) and word.text.startswith(("/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/")):
            return f"it lets everyone run a program of the system as its owner ({word.text})"
    return None


def _text(words: tuple[Word, ...]) -> str:
    return words[0].text if words else ""


def _opened(word: Word, command: Command, *, recursive: bool) -> str | None:
    lost = wiped(word, command)
    if lost and recursive and lost != _HERE and not lost.startswith("a directory at the root"):
        return lost
    kept = written(word, command)
    return kept if kept and not word.text.startswith(("~/.ssh", "/home/", "/root/")) else None


RULES: Rules = {
    "rm": _removed,
    "unlink": _removed,
    "srm": always("it removes files so that nothing brings them back"),
    "shred": always("it overwrites files or devices so that nothing brings them back"),
    "wipe": always("it overwrites files so that nothing brings them back"),
    "rimraf": lambda command: _first("removes", Options.of(command.args).operands, command),
    "trash": lambda command: _first("removes", Options.of(command.args).operands, command),
    "mv": _moved,
    "find": _found_and_deleted,
    "rsync": _synchronised,
    "chown": _owned,
    "chgrp": _owned,
    "chmod": _permitted,
    "setfacl": _owned,
}

"""Overwriting disks and file systems, and taking them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

from environments.approvals.command import UNKNOWN, Command, Word
from environments.approvals.deeds.rule import Rule, Rules, always, with_word
from environments.approvals.deeds.targets import written
from environments.approvals.options import Options

_MAKES = "it makes a new file system where one may be"
_PARTITIONS = "it changes the partitions of a disk"


def _copied(command: Command) -> str | None:
    for word in command.args:
        name, _, value = word.text.partition("=")
        if name == "of" and (lost := written(Word(value, word.glob), command)):
            return f"it overwrites {lost}"
    return None


def _made(command: Command) -> str | None:
    """`mkfs` and its kin; one in a file is harmless."""
    options = Options.of(command.args)
    onto = any(word.text.startswith("/dev/") or UNKNOWN in word.text for word in options.operands)
    return _MAKES if onto and not options.has("nV") else None


def _with_text(reason: str, pattern: str) -> Rule:
    """Return a rule for commands with an argument that fits a pattern."""
    fits = re.compile(pattern)

    def rule(command: Command) -> str | None:
        return reason if _any(fits, command.texts) else None

    return rule


def _any(pattern: re.Pattern[str], texts: Sequence[str]) -> bool:
    return any(pattern.fullmatch(text) for text in texts)


RULES: Rules = {
    "dd": _copied,
    "mkfs": _made,
    "mke2fs": _made,
    "mkswap": _made,
    "mkdosfs": _made,
    "newfs": _made,
    "wipefs": _with_text("it removes the signatures of file systems", r"-\w*[afo]\w*|--(?:all|force|offset).*"),
    "fdisk": always(_PARTITIONS, but=("-l", "--list", "-s", "-x")),
    "cfdisk": always(_PARTITIONS),
    "sfdisk": always(_PARTITIONS, but=("-l", "-d", "-J", "--list", "--dump", "--json", "-F", "--verify")),
    "sgdisk": always(_PARTITIONS, but=("-p", "-i", "--print", "--info", "-v", "--verify")),
    "gdisk": always(_PARTITIONS, but=("-l",)),
    "parted": always(_PARTITIONS, but=("-l", "--list", "print")),
    "blkdiscard": always("it discards all blocks of a device"),
    "badblocks": _with_text("it overwrites a device", r"-\w*w\w*"),
    "hdparm": _with_text("it erases a disk", r"--(?:security-erase.*|trim-sector.*|make-bad-sector|sanitize-.*)"),
    "nvme": with_word("it erases a disk", "format", "sanitize", "delete-ns"),
    "cryptsetup": _with_text(
        "it makes encrypted data unreadable", r"luksFormat|erase|luksErase|luksKillSlot|reencrypt"
    ),
    "lvreduce": always("it makes a volume smaller than its file system may be"),
    "lvremove": always("it removes a volume"),
    "vgremove": always("it removes a volume"),
    "pvremove": always("it removes a volume"),
    "mdadm": with_word("it takes an array of disks apart", "--zero-superblock", "--stop", "-S"),
    "zpool": with_word("it removes a volume", "destroy", "labelclear"),
    "zfs": with_word("it removes a volume", "destroy", "rollback"),
    "btrfs": with_word("it removes a volume", "delete", "del"),
    "umount": with_word("it unmounts all file systems", "-a", "--all"),
}

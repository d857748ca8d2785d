"""Removing packages that the system, or everything installed, stands on."""

from __future__ import annotations

import re

from environments.approvals.command import UNKNOWN, Command
from environments.approvals.deeds.rule import Rule, Rules
from environments.approvals.options import Options

_ESSENTIAL = re.compile(
    r"(?:lib(?:c6|c-bin|gcc.*|stdc\+\+.*|ssl.*)|glibc.*|musl|coreutils|bash|dash|sh|util-linux|systemd.*|sudo|apt|dpkg|rpm|yum|dnf"
    r"|pacman|apk-tools|linux-image.*|kernel.*|linux|grub.*|openssh.*|python3?(?:-minimal)?|perl-base|login|passwd|base|"
    r"base-files|filesystem|mount|init|ca-certificates|network-manager|dbus)(?::\w+)?"
)
_EVERYTHING = re.compile(r"(?:[.*?^$~]|\.\*|\[.*\])+|~i.*|\?installed")
_REMOVES = frozenset(
    ["remove", "purge", "autoremove", "erase", "uninstall", "del", "delete", "autopurge", "full-remove"]
)
_REASON = "it removes packages that the system stands on"


def _essential(command: Command) -> str | None:
    options = Options.of(command.args, ("-o", "-c", "-t", "--config"))
    words = [word.text for word in options.operands]
    if options.has("s", "simulate", "dry-run", "just-print", "no-act"):
        return None
    removes = not _REMOVES.isdisjoint(words[:1]) or any(word.endswith("-") for word in words[1:])
    if not removes:
        return None
    if options.has("", "allow-remove-essential", "force-yes"):
        return _REASON
    return _REASON if any(map(_is_essential, words[1:])) else None


def _is_essential(name: str) -> bool:
    return bool(_ESSENTIAL.fullmatch(name.rstrip("-")) or _EVERYTHING.fullmatch(name) or UNKNOWN in name)


def _by_option(letters: str, *names: str) -> Rule:
    """Return a rule for programs that remove by an option, as `dpkg -P` does."""

    def rule(command: Command) -> str | None:
        options = Options.of(command.args)
        forced = any(name.startswith(("force-", "nodeps")) for name in options.names)
        removes = options.has(letters, *names)
        essential = any(_is_essential(word.text) for word in options.operands)
        return _REASON if removes and (forced or essential) else None

    return rule


def _uninstalled(command: Command) -> str | None:
    """`pip uninstall` and the like, of everything that is installed."""
    texts = command.texts[2:] if command.texts[:2] == ("-m", "pip") else command.texts
    if not texts or texts[0] not in ("uninstall", "remove", "rm"):
        return None
    listed = any(UNKNOWN in text or text.startswith("/dev/fd/") for text in texts)
    return "it uninstalls packages without naming them" if listed else None


RULES: Rules = {
    **dict.fromkeys(("apt-get", "apt", "aptitude", "yum", "dnf", "microdnf", "zypper", "apk", "tdnf"), _essential),
    "dpkg": _by_option("rP", "remove", "purge"),
    "rpm": _by_option("e", "erase"),
    "pacman": _by_option("R", "remove"),
    **dict.fromkeys(("pip", "pip3", "python", "brew", "conda", "uv", "npm", "snap"), _uninstalled),
}
